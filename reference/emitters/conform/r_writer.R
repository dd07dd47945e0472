# Lets the fault runner drive the R emitter: see PROTOCOL.md, durable writers.

folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "..", "toyspec_emitter.R"))

nested <- function(levels) if (levels == 0) list() else list(nested(levels - 1))
records <- list(
  "long-integer" = list(kind = "step", step = 1e300),
  "bad-utf8" = list(kind = "note", text = "\xff"),
  "twin-keys" = list(kind = "mine", m = setNames(list(1, 2), c("a", "a"))),
  "deep" = list(kind = "mine", m = nested(100)),
  "long" = list(kind = "note", text = strrep("x", 17000000)),
  "no-kind" = list(m = 1)
)
run <- NULL

said <- function(is_written) if (is_written) "ok" else gsub("\n", " ", paste("failed", run$error()))

answer <- function(line) {
  words <- strsplit(line, " ", fixed = TRUE)[[1]]
  rest <- paste(words[-1], collapse = " ")
  number <- function(at) as.numeric(words[[at]])
  switch(words[[1]],
    append = , entry = , bundle = "untestable the emitter writes toy/v1 alone, without a RunBundle",
    fork = "untestable programs of R do not fork with a run",
    open = {
      found <- toyspec_run(paste(words[-(1:2)], collapse = " "), exist = words[[2]], run_id = "demo")
      if (is.null(found$error())) {
        run <<- found
        "ok"
      } else {
        paste("failed", found$error())
      }
    },
    start = said(run$start()),
    resume = said(run$resume(number(2))),
    step = said(run$step(number(2), loss = 0.5)),
    note = said(run$note(strrep("x", number(3)), step = number(2))),
    end = said(run$end()),
    dropped = paste("ok", run$dropped()),
    read = {
      invisible(readBin(rest, "raw", file.size(rest)))
      "ok"
    },
    value = if (rest == "nan") {
      said(run$step(1000, loss = NaN))
    } else if (is.null(records[[rest]])) {
      "untestable R has no such value"
    } else {
      said(run$write(records[[rest]]))
    },
    {
      if (!is.null(run)) run$close()
      "ok"
    }
  )
}

input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  cat(answer(line), "\n", sep = "")
  flush(stdout())
}
