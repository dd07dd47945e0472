# Writes training logs of toy/v1, in one file to copy into a project.
#
#     source("toyspec_emitter.R")
#     run <- toyspec_run("runs/demo")
#     run$start(config = list(lr = 3e-4))
#     for (step in 1:100) run$step(step, loss = 2.5)
#     run$end()
#
# A call returns TRUE when its record is in the file, whatever happens to the process afterwards. It raises nothing into
# the training: it returns FALSE, `run$error()` says why, and the first failure is printed on standard error. Needs R 4
# and nothing else. R has no file locks: within a process a stream is opened once, but nothing keeps another process from
# writing to it. It syncs no file by itself, so the first and the last record are synced by the program `sync`, where
# there is one (Linux). A limit of file size ends R by a signal, a write that a signal interrupts may close the stream, and
# a record of more than a few kilobytes is written in several calls. SPDX-License-Identifier: Apache-2.0

toyspec_run <- local({
  MAX_LINE_BYTES <- 16777216
  MAX_DEPTH <- 64
  STEP_KEYS <- c("loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob", "mtp_loss")
  held <- new.env() # the streams that this process holds, so that no two runs write to one file

  JSON <- paste0(
    "(?(DEFINE)(?<w>[ \\t\\r\\n]*+)(?<n>-?+(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?+(?:[eE][-+]?+[0-9]++)?+)",
    "(?<s>\"(?:[^\"\\\\\\x00-\\x1f]++|\\\\(?:[\"\\\\/bfnrt]|u[0-9a-fA-F]{4}))*+\")",
    "(?<o>\\{(?&w)(?:(?&s)(?&w):(?&v)(?:,(?&w)(?&s)(?&w):(?&v))*+)?+\\})",
    "(?<a>\\[(?:(?&v)(?:,(?&v))*+|(?&w))\\])",
    "(?<v>(?&w)(?:(?&s)|(?&n)|(?&o)|(?&a)|true|false|null)(?&w)))"
  )
  OBJECT <- paste0(JSON, "^(?&w)(?&o)(?&w)$")

  refuse <- function(...) stop(paste0(...), call. = FALSE)

  # What R prints of an error or a warning, without the call.
  reason <- function(condition) gsub("[\r\n]+", " ", conditionMessage(condition))

  report <- function(fact) try(cat(paste0("toyspec: ", fact, "\n"), file = stderr()), silent = TRUE)

  # Values of top-level members `name` of the lines that are numbers; NA for the others.
  member <- function(lines, name) {
    pattern <- paste0(JSON, "^(?&w)\\{(?:(?&w)(?&s)(?&w):(?&v),)*?(?&w)\"", name, "\"(?&w):(?&w)(?<found>(?&n)|(?&s))")
    at <- regexpr(pattern, lines, perl = TRUE, useBytes = TRUE)
    start <- attr(at, "capture.start")[, "found"]
    found <- substring(lines, start, start + attr(at, "capture.length")[, "found"] - 1)
    ifelse(at > 0, found, NA_character_)
  }

  text_json <- function(text) {
    text <- enc2utf8(text)
    if (!validUTF8(text)) refuse("text is not UTF-8")
    if (grepl("[\\\\\"\x01-\x1f]", text, perl = TRUE)) {
      text <- gsub("\"", "\\\"", gsub("\\", "\\\\", text, fixed = TRUE), fixed = TRUE)
      for (code in unique(utf8ToInt(text))) if (code < 32) {
        text <- gsub(intToUtf8(code), sprintf("\\u%04x", code), text, fixed = TRUE)
      }
    }
    paste0("\"", text, "\"")
  }

  # The shortest digits that read back as the same number.
  number_json <- function(number) {
    if (!is.finite(number)) refuse("a number that is not finite cannot be written here")
    if (number == trunc(number) && abs(number) < 1e15) return(sprintf("%.0f", number))
    for (digits in 15:17) {
      text <- formatC(number, digits = digits, format = "g")
      if (as.numeric(text) == number) break
    }
    trimws(text)
  }

  # A vector of one value is that value, a longer one and a list without names an array, a list with names an object.
  json <- function(value, depth = MAX_DEPTH) {
    if (depth == 0) refuse("a record is nested more than ", MAX_DEPTH, " levels deep")
    if (is.null(value)) return("null")
    names <- names(value)
    if (is.list(value) && !is.null(names)) {
      if (any(names == "") || anyDuplicated(names)) refuse("an object needs a name for each member, and each once")
      members <- vapply(seq_along(value), function(i) paste0(text_json(names[[i]]), ":", json(value[[i]], depth - 1)), "")
      return(paste0("{", paste(members, collapse = ","), "}"))
    }
    if (is.list(value) || (is.atomic(value) && (length(value) != 1 || inherits(value, "AsIs")))) {
      items <- vapply(seq_along(value), function(i) json(value[[i]], depth - 1), "")
      return(paste0("[", paste(items, collapse = ","), "]"))
    }
    if (is.object(value)) refuse("a value of class ", class(value)[[1]], " cannot be written as JSON")
    if (is.character(value) && !is.na(value)) return(text_json(value))
    if (is.logical(value)) return(if (is.na(value)) "null" else if (value) "true" else "false")
    if (is.numeric(value)) return(if (is.na(value) && !is.nan(value)) "null" else number_json(value))
    refuse("a value of type ", typeof(value), " cannot be written as JSON")
  }

  line_of <- function(record) {
    kind <- record[["kind"]]
    if (!is.character(kind)) refuse("a record needs a kind")
    step <- record[["step"]]
    if (!is.null(step) && !(is.numeric(step) && length(step) == 1 && is.finite(step) && step >= 0 && step == trunc(step) &&
      step < 2^53)) refuse("step must be an integer from 0 to 2^53 - 1, not ", substr(format(step)[[1]], 1, 40))
    line <- charToRaw(paste0(json(record), "\n"))
    if (length(line) > MAX_LINE_BYTES) refuse("a line has ", length(line), " bytes; at most ", MAX_LINE_BYTES, " can be read")
    line
  }

  # The values as they are written: NULL-like for what is not finite, whose word goes into `nonfinite`.
  finite <- function(values, prefix = "") {
    nonfinite <- list()
    for (name in names(values)) {
      value <- values[[name]]
      if (is.logical(value) && length(value) == 1 && !is.na(value)) values[[name]] <- as.integer(value)
      if (is.numeric(value) && length(value) == 1 && !is.finite(value)) {
        nonfinite[[paste0(prefix, name)]] <- if (is.nan(value) || is.na(value)) "nan" else if (value > 0) "inf" else "-inf"
        values[[name]] <- NA
      }
    }
    list(values = values, nonfinite = nonfinite)
  }

  bytes_of <- function(path, from = 0, count = file.size(path) - from) {
    file <- file(path, "rb")
    on.exit(close(file))
    if (from > 0) seek(file, from)
    readBin(file, "raw", count)
  }

  # Appends, and raises where the file did not grow by all of it: R does not report what a full disk did to its buffer. A
  # write that was cut short goes on, as long as something arrives.
  append_bytes <- function(path, bytes, before) {
    arrived <- 0
    while (arrived < length(bytes)) {
      rest <- if (arrived > 0) bytes[seq.int(arrived + 1, length(bytes))] else bytes
      suppressWarnings(try({
        file <- file(path, "ab")
        tryCatch(writeBin(rest, file), finally = close(file))
      }, silent = TRUE))
      grown <- file.size(path) - before
      if (is.na(grown) || grown <= arrived || grown > length(bytes)) {
        refuse("not all bytes could be written; is the disk full?")
      }
      arrived <- grown
    }
  }

  cut <- function(path, size) {
    file <- file(path, "r+b")
    on.exit(close(file))
    seek(file, size, rw = "write")
    truncate(file)
  }

  sync <- function(...) {
    if (.Platform$OS.type != "unix" || Sys.which("sync") == "") return()
    for (path in c(...)) {
      said <- suppressWarnings(system2("sync", shQuote(path), stdout = TRUE, stderr = TRUE, env = "LC_ALL=C"))
      is_kept <- is.null(attr(said, "status"))
      # Some file systems cannot sync a directory.
      if (!is_kept && !(dir.exists(path) && any(grepl("Invalid argument", said)))) refuse("a sync failed")
    }
  }

  is_regular <- function(path) {
    if (.Platform$OS.type != "unix") return(!dir.exists(path))
    system2("test", c("-f", shQuote(path))) == 0
  }

  is_there <- function(path) file.exists(path) || !is.na(Sys.readlink(path)) && Sys.readlink(path) != ""

  # The name, or the first of its numbered siblings that is not there.
  free <- function(name, first, stem = name) {
    number <- first
    while (is_there(name)) {
      name <- paste0(stem, "-", number)
      number <- number + 1
    }
    name
  }

  rename <- function(from, to) if (!suppressWarnings(file.rename(from, to))) refuse("cannot rename ", from)

  # `exist` says what happens to a stream that is there: "replace" keeps it as `events.jsonl.prev`, "fail" refuses it, and
  # "resume" goes on with it.
  function(directory, exist = c("replace", "fail", "resume"), run_id = basename(directory)) {
    exist <- match.arg(exist)
    directory <- path.expand(directory)
    path <- file.path(directory, "events.jsonl")
    error <- NULL
    dropped <- unsaid <- last_step <- last_t <- size <- 0
    fragment <- raw()
    is_open <- is_begun <- was_reported <- FALSE
    inode <- NULL # a connection that keeps the file readable where another program moves it away
    origin <- proc.time()[["elapsed"]]
    key <- NULL

    attempt <- function(action) {
      tryCatch({
        action()
        TRUE
      }, error = function(condition) {
        error <<- paste0(path, ": ", reason(condition))
        if (!was_reported) report(paste0(error, "; this call wrote nothing"))
        was_reported <<- TRUE
        FALSE
      })
    }

    now <- function() {
      last_t <<- max(last_t, round(proc.time()[["elapsed"]] - origin, 6))
      last_t
    }

    # Takes in the last step and time of the stream; raises unless it is toy/v1 and not damaged.
    scan_stream <- function() {
      bytes <- bytes_of(path)
      ends <- which(bytes == as.raw(10))
      end <- if (length(ends)) ends[[length(ends)]] else 0
      fragment <<- bytes[seq_along(bytes) > end]
      size <<- end
      if (any(bytes[seq_len(end)] == as.raw(0))) refuse("a line is damaged; `toyspec check` says where")
      lines <- strsplit(rawToChar(bytes[seq_len(end)]), "\n", fixed = TRUE)[[1]]
      lines <- lines[grepl("[^ \t\r]", lines, useBytes = TRUE)]
      if (!all(validUTF8(lines)) || !all(grepl(OBJECT, lines, perl = TRUE, useBytes = TRUE))) {
        refuse("a line is damaged; `toyspec check` says where")
      }
      if (length(lines) == 0) return()
      kinds <- member(lines, "kind")
      schema <- member(lines[1], "schema")
      if (!identical(kinds[[1]], "\"run_start\"") || !(is.na(schema) || schema == "\"toy/v1\"")) {
        refuse("the stream is not of toy/v1")
      }
      number <- function(words) suppressWarnings(as.numeric(words[!is.na(words)]))
      steps <- number(member(lines[!is.na(kinds) & kinds == "\"step\""], "step"))
      if (length(steps)) last_step <<- steps[[length(steps)]]
      last_t <<- max(0, number(member(lines, "t")), na.rm = TRUE)
      origin <<- proc.time()[["elapsed"]] - last_t
    }

    open_stream <- function() {
      if (!dir.exists(directory) && !suppressWarnings(dir.create(directory, recursive = TRUE)) && !dir.exists(directory)) {
        refuse("cannot create the directory")
      }
      key <<- file.path(normalizePath(directory), "events.jsonl")
      if (!is.null(held[[key]])) refuse("another writer of this process holds this stream")
      if (is_there(path)) {
        if (exist == "fail") refuse("there is a stream already; resume it, replace it, or use another directory")
        if (!is_regular(path)) refuse("this is not a regular file")
        if (exist == "resume") scan_stream()
      }
      held[[key]] <- TRUE
      is_open <<- TRUE
    }

    hold <- function() {
      if (!is.null(inode)) close(inode)
      inode <<- file(path, "rb")
    }

    # Writes the first record of this process; if that fails, every file is as it was.
    begin <- function(first) {
      if (!is_open || is_begun) refuse(if (is_open) "the run has begun" else "the stream is not open")
      line <- line_of(first)
      undo <- list()
      tryCatch({
        is_new <- first$kind == "run_start"
        if (is_new && is_there(path) && file.size(path) > 0 && exist == "replace") undo <- keep(undo)
        if (is_new && is_there(path) && file.size(path) > 0) refuse("the stream has records; resume it")
        if (!is_there(path)) {
          size <<- 0
          undo <- c(list(function() unlink(path)), undo)
        }
        if (length(fragment)) move_fragment()
        write_line(line, is_synced = TRUE)
      }, error = function(condition) {
        for (step in undo) step()
        stop(condition)
      })
      hold()
      is_begun <<- TRUE
      fragment <<- raw()
    }

    # Renames the file at the path to `.prev`, and an earlier one of that name to the first free `.prev-N`.
    keep <- function(undo) {
      previous <- paste0(path, ".prev")
      if (is_there(previous)) {
        older <- free(paste0(previous, "-1"), 1, previous)
        rename(previous, older)
        undo <- c(list(function() rename(older, previous)), undo)
      }
      rename(path, previous)
      c(list(function() rename(previous, path)), undo)
    }

    # Copies the bytes after the last LF to a side file, then cuts them off.
    move_fragment <- function() {
      side <- free(paste0(path, ".torn-", size), 2)
      tryCatch({
        append_bytes(side, fragment, 0)
        sync(side, directory)
        cut(path, size)
      }, error = function(condition) {
        unlink(side)
        stop(condition)
      })
    }

    # Writes a line whole, or takes back what was written of it; where that fails, closes the stream.
    write_line <- function(line, is_synced = FALSE) {
      tryCatch(append_bytes(path, line, size), error = function(condition) {
        end <- file.size(path)
        if (!is.na(end) && end > size) {
          # Only bytes of this line are removed: another process may have appended to the file.
          part <- bytes_of(path, size)
          is_ours <- length(part) < length(line) && identical(part, line[seq_along(part)])
          if (is_ours) try(cut(path, size), silent = TRUE)
          if (is_begun && !isTRUE(file.size(path) == size)) shut()
        }
        stop(condition)
      })
      size <<- size + length(line)
      if (is_synced) sync(path, directory)
    }

    put <- function(record, is_synced = FALSE) {
      if (!is_begun || !is_open) refuse("the run is not open; call start() or resume() first")
      line <- line_of(record)
      follow_path()
      tryCatch(write_line(line, is_synced), error = function(condition) {
        dropped <<- dropped + 1
        unsaid <<- unsaid + 1
        stop(condition)
      })
      if (record$kind == "step") last_step <<- record$step
      if (unsaid == 0) return()
      text <- paste(unsaid, "records were dropped: they could not be written")
      note <- list(kind = "note", t = now(), text = text, topic = "left-out", dropped = list(record = unsaid))
      # The next record that fits tries again.
      if (!inherits(try(write_line(line_of(note)), silent = TRUE), "try-error")) unsaid <<- 0
    }

    # Starts the stream again at its path if another file, or none, is there.
    follow_path <- function() {
      if (isTRUE(file.size(path) == size)) return()
      seek(inode, 0, origin = "end")
      if (isTRUE(seek(inode) == file.size(path))) {
        # The same file: another process has appended to it, or emptied it.
        size <<- file.size(path)
        return()
      }
      report(paste0(path, " was moved away; it is started again with its records"))
      seek(inode, 0)
      bytes <- readBin(inode, "raw", size)
      dir.create(directory, showWarnings = FALSE, recursive = TRUE)
      if (is_there(path)) keep(list())
      append_bytes(path, bytes, 0)
      size <<- length(bytes)
      hold()
    }

    shut <- function() {
      if (!is.null(inode)) close(inode)
      inode <<- NULL
      if (is_open) rm(list = key, envir = held)
      is_open <<- FALSE
      invisible()
    }

    attempt(open_stream)
    list(
      # Writes `run_start` with metadata such as `config` and `model`; call it before computing.
      start = function(...) attempt(function() {
        started <- format(Sys.time(), "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")
        begin(c(list(kind = "run_start", schema = "toy/v1", t = now(), run_id = run_id, started_at = started), list(...)))
      }),
      # Goes on after `from_step`, by default the last step in the file; without a record to resume, starts the run.
      resume = function(from_step = last_step) attempt(function() {
        if (is_open && size == 0) {
          if (length(fragment)) move_fragment()
          started <- format(Sys.time(), "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")
          begin(list(kind = "run_start", schema = "toy/v1", t = now(), run_id = run_id, started_at = started))
        } else {
          begin(list(kind = "run_resume", t = now(), from_step = from_step))
        }
      }),
      # Writes one step of the training, such as `run$step(5, loss = 2.5, lr = 3e-4)`; other names go into `extra`.
      step = function(step, ...) attempt(function() {
        values <- list(...)
        own <- finite(values[names(values) %in% STEP_KEYS])
        extra <- finite(values[!names(values) %in% STEP_KEYS], "extra/")
        nonfinite <- c(own$nonfinite, extra$nonfinite)
        record <- c(list(kind = "step", phase = "train", t = now(), step = step), own$values)
        if (length(extra$values)) record$extra <- extra$values
        if (length(nonfinite)) record$nonfinite <- nonfinite
        put(record)
      }),
      # Writes values by name, such as `run$log(list("val/acc" = 0.5), 5)`, at a step or without one.
      log = function(values, step = NULL) attempt(function() {
        kept <- finite(values)
        record <- c(list(kind = "scalars", t = now()), if (!is.null(step)) list(step = step), list(values = kept$values))
        if (length(kept$nonfinite)) record$nonfinite <- kept$nonfinite
        put(record)
      }),
      # Writes a note.
      note = function(text, ...) attempt(function() put(c(list(kind = "note", t = now(), text = text), list(...)))),
      # Writes any record of toy/v1; `t` is filled in.
      write = function(record) attempt(function() put(if (is.null(record[["t"]])) c(record, list(t = now())) else record)),
      # Writes `run_end` and closes the stream. The reason is completed, interrupted, aborted or errored.
      end = function(reason = "completed", ...) {
        done <- attempt(function() {
          final <- if (last_step > 0) list(final_step = last_step)
          put(c(list(kind = "run_end", t = now(), reason = reason), final, list(...)), is_synced = TRUE)
        })
        shut()
        done
      },
      # Closes the stream without a record.
      close = shut,
      # Why the last call that failed did; NULL if none did.
      error = function() error,
      # Number of records that are not in the file, since it could not be written.
      dropped = function() dropped,
      # The last step in the file.
      last_step = function() last_step
    )
  }
})
