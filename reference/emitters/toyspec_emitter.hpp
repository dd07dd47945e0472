// Writes training logs of toy/v1, in one header to copy into a project. C++17 and POSIX, nothing else.
//
//     toyspec::Run run("runs/demo");
//     run.start("\"config\":{\"lr\":0.0003}");
//     for (long step = 1; step <= 100; step++) run.step(step, {{"loss", 2.5}});
//     run.end();
//
// A call returns true when its record is in the file, whatever happens to the process afterwards. It throws nothing into
// the training: it returns false, run.error says why, and the first failure is printed on standard error. No call waits
// for a lock or a thread. A Run is used by one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace toyspec {

using Values = std::vector<std::pair<std::string, double>>;

enum class Exist { replace, fail, resume };  // replace keeps the earlier stream as events.jsonl.prev

class Run {
  public:
    std::string error;       // why the last call that failed did
    long dropped = 0;        // number of records that are not in the file, since it could not be written
    long long last_step = 0; // the last step in the file

    // The stream is events.jsonl in the directory; the run's id is the directory's name unless it is given.
    explicit Run(const std::string &directory, Exist exist = Exist::replace, const std::string &run_id = "")
        : exist_(exist), process_(getpid()), origin_(now()) {
        perform([&] {
            directory_ = std::filesystem::absolute(directory).lexically_normal().string();
            if (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
            path_ = directory_ + "/events.jsonl";
            run_id_ = run_id.empty() ? std::filesystem::path(directory_).filename().string() : run_id;
            open();
        });
    }
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;
    ~Run() { close(); }

    // Writes run_start before the computation begins; members is JSON such as "config":{"lr":0.0003} without the braces.
    bool start(const std::string &members = "") {
        char day[32];
        std::time_t seconds = std::time(nullptr);
        std::tm utc{};
        gmtime_r(&seconds, &utc);
        std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &utc);
        return perform([&] {
            begin(checked("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":" + t() + ",\"run_id\":" + text(run_id_) +
                          ",\"started_at\":\"" + day + "\"" + (members.empty() ? "" : "," + members) + "}"),
                  true);
        });
    }

    // Goes on after from_step, by default the last step in the file; without a record to resume, starts the run.
    bool resume(long long from_step = -1) {
        if (is_open_ && file_ < 0) return start();
        long long step = from_step < 0 ? last_step : from_step;
        return perform([&] {
            begin("{\"kind\":\"run_resume\",\"t\":" + t() + ",\"from_step\":" + std::to_string(step) + "}\n", false);
        });
    }

    // Writes one step of the training; names that the format does not know go into extra.
    bool step(long long step, const Values &values) {
        return perform([&] {
            std::string own, extra, nonfinite;
            for (const auto &[name, value] : values) {
                bool known = is_known(name);
                std::string &list = known ? own : extra;
                if (known || !list.empty()) list += ",";
                list += text(name) + ":" + number(value);
                note_nonfinite(nonfinite, known ? name : "extra/" + name, value);
            }
            if (step < 0) throw Refused("step must be an integer from 0, not " + std::to_string(step));
            write("{\"kind\":\"step\",\"phase\":\"train\",\"t\":" + t() + ",\"step\":" + std::to_string(step) + own +
                      (extra.empty() ? "" : ",\"extra\":{" + extra + "}") + closed(nonfinite),
                  false);
            last_step = step;
        });
    }

    // Writes values by name, at a step or without one.
    bool log(const Values &values, long long step = -1) {
        return perform([&] {
            std::string list, nonfinite;
            for (const auto &[name, value] : values) {
                list += (list.empty() ? "" : ",") + text(name) + ":" + number(value);
                note_nonfinite(nonfinite, name, value);
            }
            write("{\"kind\":\"scalars\",\"t\":" + t() + (step < 0 ? "" : ",\"step\":" + std::to_string(step)) +
                      ",\"values\":{" + list + "}" + closed(nonfinite),
                  false);
        });
    }

    // Writes a note.
    bool note(const std::string &words, long long step = -1) {
        return perform([&] {
            write("{\"kind\":\"note\",\"t\":" + t() + ",\"text\":" + text(words) +
                      (step < 0 ? "" : ",\"step\":" + std::to_string(step)) + "}\n",
                  false);
        });
    }

    // Writes any record; members is JSON such as "kind":"sample","prompt":"a","text":"b" without the braces and t.
    bool record(const std::string &members) {
        return perform([&] { write(checked("{\"t\":" + t() + "," + members + "}"), false); });
    }

    // Writes run_end and closes the stream; reason is completed, interrupted, aborted or errored.
    bool end(const std::string &reason = "completed", const std::string &cause = "") {
        bool done = perform([&] {
            write("{\"kind\":\"run_end\",\"t\":" + t() + ",\"reason\":" + text(reason) +
                      (last_step ? ",\"final_step\":" + std::to_string(last_step) : "") +
                      (cause.empty() ? "" : ",\"error\":" + text(cause)) + "}\n",
                  true);
        });
        close();
        return done;
    }

    // Closes the stream and releases its locks, without a record.
    void close() {
        if (file_ >= 0 && process_ == getpid()) {
            lock(file_, false);  // a child that was forked has the file open, too, and would keep the locks
            ::close(file_);
        }
        file_ = -1;
        is_open_ = false;
    }

  private:
    struct Refused {
        std::string why;
        int code = 0;
        explicit Refused(std::string cause) : why(std::move(cause)) {}
        explicit Refused(int number) : why(std::strerror(number)), code(number) {}
    };

    static constexpr std::size_t most_bytes_ = 16777216;
    static constexpr int most_depth_ = 63;  // levels below the record itself
    Exist exist_;
    pid_t process_;
    double origin_, last_t_ = 0, looked_ = 0;
    std::string directory_, path_, run_id_, fragment_;
    int file_ = -1;
    long unsaid_ = 0;
    bool is_open_ = false, is_begun_ = false, was_reported_ = false;

    static double now() {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    std::string t() {
        last_t_ = std::max(last_t_, std::round((now() - origin_) * 1e6) / 1e6);
        char digits[40];
        std::snprintf(digits, sizeof digits, "%.6f", last_t_);
        return digits;
    }

    bool perform(const std::function<void()> &action) {
        try {
            action();
            return true;
        } catch (const Refused &refused) {
            error = path_ + ": " + refused.why;
        } catch (const std::exception &failure) {
            error = path_ + ": " + failure.what();
        }
        if (!was_reported_) report(error + "; this call wrote nothing");
        was_reported_ = true;
        return false;
    }

    // Keeps a limit of file size from ending the process.
    struct NoSignal {
        struct sigaction before{};
        NoSignal() {
            struct sigaction ignore{};
            ignore.sa_handler = SIG_IGN;
            sigaction(SIGXFSZ, &ignore, &before);
        }
        ~NoSignal() { sigaction(SIGXFSZ, &before, nullptr); }
    };

    static void report(const std::string &fact) {
        NoSignal none;
        std::fprintf(stderr, "toyspec: %s\n", fact.c_str());
    }

    static bool is_known(const std::string &name) {
        static const char *const keys[] = {"loss", "ppl", "lr", "grad_norm", "logprob", "mtp_loss"};
        for (const char *key : keys)
            if (name == key) return true;
        return false;
    }

    static std::string number(double value) {
        if (!std::isfinite(value)) return "null";
        char digits[40];
        for (int precision = 15; precision <= 17; precision++) {
            std::snprintf(digits, sizeof digits, "%.*g", precision, value);
            if (std::strtod(digits, nullptr) == value) break;
        }
        for (char *at = digits; *at; at++)
            if (*at == ',') *at = '.';  // of a locale
        return digits;
    }

    static void note_nonfinite(std::string &list, const std::string &name, double value) {
        if (std::isfinite(value)) return;
        list += (list.empty() ? "" : ",") + text(name) + ":\"" + (std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf") + "\"";
    }

    static std::string closed(const std::string &nonfinite) {
        return (nonfinite.empty() ? "" : ",\"nonfinite\":{" + nonfinite + "}") + "}\n";
    }

    // Returns a string of JSON; throws for what is not UTF-8.
    static std::string text(const std::string &raw) {
        std::string found = "\"";
        for (std::size_t at = 0; at < raw.size();) {
            unsigned char first = static_cast<unsigned char>(raw[at]);
            std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
            if (size == 0 || at + size > raw.size()) throw Refused("text is not valid UTF-8");
            unsigned long point = size == 1 ? first : first & (0x7F >> size);
            for (std::size_t next = 1; next < size; next++) {
                unsigned char byte = static_cast<unsigned char>(raw[at + next]);
                if (byte >> 6 != 2) throw Refused("text is not valid UTF-8");
                point = point << 6 | (byte & 0x3F);
            }
            static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
            if (point < least[size] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
                throw Refused("text is not valid UTF-8");
            if (point < 0x20 || point == '"' || point == '\\') {
                char escape[8];
                std::snprintf(escape, sizeof escape, "\\u%04lx", point);
                found += point == '"' ? "\\\"" : point == '\\' ? "\\\\" : point == '\n' ? "\\n" : escape;
            } else {
                found.append(raw, at, size);
            }
            at += size;
        }
        return found + "\"";
    }

    void open() {
        std::filesystem::create_directories(directory_);
        struct stat found{};
        if (lstat(path_.c_str(), &found) == 0) {
            if (exist_ == Exist::fail)
                throw Refused("there is a stream already; resume it, replace it, or use another directory");
            file_ = locked(path_, 0);
            try {
                if (exist_ == Exist::resume) scan();
            } catch (...) {
                close();
                throw;
            }
        }
        is_open_ = true;
    }

    // Takes in the last step and time of the stream; throws unless it is toy/v1 with nothing but objects.
    void scan() {
        std::string content = all(file_);
        std::size_t begin = 0;
        bool is_first = true;
        for (std::size_t end; (end = content.find('\n', begin)) != std::string::npos; begin = end + 1) {
            std::string line = content.substr(begin, end - begin);
            if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
            std::vector<std::pair<std::string, std::string>> members;
            if (!object(line, members)) throw Refused("a line is damaged; `toyspec check` says where");
            std::string kind = member(members, "kind"), schema = member(members, "schema");
            if (is_first && (kind != "\"run_start\"" || (!schema.empty() && schema != "\"toy/v1\"")))
                throw Refused("the stream is not of toy/v1");
            is_first = false;
            char *rest = nullptr;
            std::string time = member(members, "t"), step = member(members, "step");
            double seconds = std::strtod(time.c_str(), &rest);
            if (!time.empty() && *rest == 0) last_t_ = std::max(last_t_, seconds);
            double number = std::strtod(step.c_str(), &rest);
            if (kind == "\"step\"" && !step.empty() && *rest == 0) last_step = static_cast<long long>(number);
        }
        fragment_ = content.substr(begin);
        origin_ = now() - last_t_;
    }

    // Returns a record of the caller as a line; throws for what is not one object with a kind.
    static std::string checked(const std::string &record) {
        std::vector<std::pair<std::string, std::string>> members;
        if (!object(record, members) || record.find('\n') != std::string::npos)
            throw Refused("the members are not JSON that every reader takes");
        if (member(members, "kind").substr(0, 1) != "\"") throw Refused("a record needs a kind");
        return record + "\n";
    }

    static std::string member(const std::vector<std::pair<std::string, std::string>> &members, const std::string &key) {
        std::string found;
        for (const auto &[name, value] : members)
            if (name == "\"" + key + "\"") found = value;
        return found;
    }

    // Splits an object into its members as they are written; false for what is not one object of JSON.
    static bool object(const std::string &line, std::vector<std::pair<std::string, std::string>> &members) {
        std::size_t at = 0;
        return value(line, at, 0, &members) && (blank(line, at), at == line.size()) && line[line.find_first_not_of(" \t\r")] == '{';
    }

    static void blank(const std::string &s, std::size_t &at) {
        while (at < s.size() && std::strchr(" \t\r", s[at])) at++;
    }

    static bool value(const std::string &s, std::size_t &at, int depth, std::vector<std::pair<std::string, std::string>> *members) {
        blank(s, at);
        if (at >= s.size() || depth > most_depth_) return false;
        if (s[at] == '"') return quoted(s, at);
        if (s[at] == '{' || s[at] == '[') {
            const char end = s[at] == '{' ? '}' : ']';
            at++;
            blank(s, at);
            if (at < s.size() && s[at] == end) return ++at, true;
            for (;;) {
                blank(s, at);
                std::size_t name = at;
                if (end == '}' && !quoted(s, at)) return false;
                std::string key = s.substr(name, at - name);
                blank(s, at);
                if (end == '}' && (at >= s.size() || s[at++] != ':')) return false;
                blank(s, at);
                std::size_t begin = at;
                if (!value(s, at, depth + 1, nullptr)) return false;
                if (members && end == '}') members->emplace_back(key, s.substr(begin, at - begin));
                blank(s, at);
                if (at >= s.size()) return false;
                if (s[at] == end) return ++at, true;
                if (s[at++] != ',') return false;
            }
        }
        for (const char *word : {"true", "false", "null"})
            if (s.compare(at, std::strlen(word), word) == 0) return at += std::strlen(word), true;
        std::size_t begin = at;
        if (s[at] == '-') at++;
        while (at < s.size() && std::strchr("0123456789.eE+-", s[at])) at++;
        char *rest = nullptr;
        std::string digits = s.substr(begin, at - begin);
        double number = std::strtod(digits.c_str(), &rest);
        return !digits.empty() && *rest == 0 && std::isfinite(number);
    }

    static bool quoted(const std::string &s, std::size_t &at) {
        if (at >= s.size() || s[at] != '"') return false;
        for (at++; at < s.size() && s[at] != '"'; at++) {
            if (static_cast<unsigned char>(s[at]) < 0x20) return false;
            if (s[at] == '\\') at++;
        }
        return at < s.size() && ++at;
    }

    // Writes the first record of this process; if that fails, every file is as it was.
    void begin(const std::string &line, bool is_new) {
        if (!is_open_ || is_begun_) throw Refused(is_open_ ? "the run has begun" : "the stream is not open");
        check_process();
        std::vector<std::function<void()>> undo;
        int old = -1;
        try {
            struct stat found{};
            if (is_new && file_ >= 0 && fstat(file_, &found) == 0 && found.st_size > 0 && exist_ == Exist::replace) {
                old = file_;
                file_ = -1;
                undo.push_back([this, old] { file_ = old; });
                keep(path_, undo);
            }
            if (file_ < 0) {
                std::filesystem::create_directories(directory_);
                file_ = locked(path_, O_CREAT | O_EXCL);
                undo.push_back([this] {
                    unlink(path_.c_str());
                    if (file_ >= 0) ::close(file_);
                    file_ = -1;
                });
            }
            if (!fragment_.empty()) move_fragment();
            append(line, true);
        } catch (...) {
            for (auto step = undo.rbegin(); step != undo.rend(); ++step) (*step)();
            throw;
        }
        is_begun_ = true;
        fragment_.clear();
        if (old < 0) return;
        ::close(old);
        move_ranks();
    }

    // Keeps the streams of the other ranks of the run that was replaced; one that a writer holds is of the new run.
    void move_ranks() const {
        std::vector<std::string> paths;
        DIR *folder = opendir(directory_.c_str());
        while (dirent *entry = folder ? readdir(folder) : nullptr) {
            unsigned long rank = 0;
            bool is_rank = std::sscanf(entry->d_name, "events.rank-%9lu", &rank) == 1 && rank > 0;
            if (is_rank && "events.rank-" + std::to_string(rank) + ".jsonl" == entry->d_name)
                paths.push_back(directory_ + "/" + entry->d_name);
        }
        if (folder) closedir(folder);
        for (const std::string &path : paths) {
            int file = -1;
            struct stat found{};
            std::vector<std::function<void()>> undo;
            try {
                file = locked(path, 0);
                if (fstat(file, &found) == 0 && found.st_size > 0) keep(path, undo);
            } catch (const Refused &) {  // it stays where it is
            }
            if (file >= 0) ::close(file);
        }
    }

    // Copies the bytes after the last LF to a side file, then cuts them off.
    void move_fragment() {
        struct stat found{};
        fstat(file_, &found);
        off_t offset = found.st_size - static_cast<off_t>(fragment_.size());
        std::string side = free_name(path_ + ".torn-" + std::to_string(offset), 2, path_ + ".torn-" + std::to_string(offset));
        int copy = ::open(side.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (copy < 0) throw Refused(errno);
        int failure = write_all(copy, fragment_);
        if (failure == 0 && fsync(copy) != 0) failure = errno;
        ::close(copy);
        try {
            if (failure) throw Refused(failure);
            sync_directory();
            if (ftruncate(file_, offset) != 0) throw Refused(errno);
        } catch (...) {
            unlink(side.c_str());
            throw;
        }
    }

    void check_process() const {
        if (process_ != getpid()) throw Refused("this process was forked from the one that opened the run, which alone writes to it");
    }

    void write(const std::string &line, bool sync) {
        check_process();
        if (!is_begun_ || file_ < 0) throw Refused("the run is not open; call start() or resume() first");
        if (line.size() > most_bytes_) throw Refused("a line is longer than 16777216 bytes");
        follow_path();
        try {
            append(line, sync);
        } catch (const Refused &) {
            dropped++;
            unsaid_++;
            throw;
        }
        if (unsaid_ == 0 || file_ < 0) return;
        try {
            append("{\"kind\":\"note\",\"t\":" + t() + ",\"text\":\"" + std::to_string(unsaid_) +
                       " records were dropped: they could not be written\",\"topic\":\"left-out\",\"dropped\":{\"record\":" +
                       std::to_string(unsaid_) + "}}\n",
                   false);
            unsaid_ = 0;
        } catch (const Refused &) {  // the next record that fits tries again
        }
    }

    // Writes a line whole, or takes back what was written of it; after a failure that may last, closes the stream.
    void append(const std::string &line, bool sync) {
        struct stat before{}, after{};
        if (fstat(file_, &before) != 0) throw Refused(errno);
        if (int failure = write_all(file_, line)) {
            fstat(file_, &after);
            bool is_safe = after.st_size <= before.st_size || after.st_size >= before.st_size + static_cast<off_t>(line.size());
            if (!is_safe) {
                // Only bytes of this line are removed: another process may have appended to the file.
                std::string part(static_cast<std::size_t>(after.st_size - before.st_size), '\0');
                ssize_t got = pread(file_, part.data(), part.size(), before.st_size);
                is_safe = got == static_cast<ssize_t>(part.size()) && line.compare(0, part.size(), part) == 0 &&
                          ftruncate(file_, before.st_size) == 0;
            }
            bool is_temporary = failure == ENOSPC || failure == EDQUOT || failure == EFBIG || failure == EINTR || failure == EAGAIN;
            if (is_begun_ && (!is_safe || !is_temporary)) close();
            throw Refused(failure);
        }
        if (!sync) return;
        if (fsync(file_) != 0) throw Refused(errno);
        sync_directory();
    }

    // Once a second, starts the stream again at its path if another file, or none, is there.
    void follow_path() {
        if (now() - looked_ < 1.0) return;
        looked_ = now();
        struct stat mine{}, there{};
        fstat(file_, &mine);
        if (stat(path_.c_str(), &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) return;
        report(path_ + " was moved away; it is started again with its records");
        std::string content = all(file_);
        std::filesystem::create_directories(directory_);
        std::vector<std::function<void()>> undo;
        if (lstat(path_.c_str(), &there) == 0) keep(path_, undo);
        int again = locked(path_, O_CREAT | O_EXCL);
        if (int failure = write_all(again, content.substr(0, content.rfind('\n') + 1))) throw Refused(failure);
        ::close(file_);
        file_ = again;
    }

    static std::string all(int file) {
        std::string found;
        std::vector<char> block(1 << 20);
        for (ssize_t got; (got = pread(file, block.data(), block.size(), static_cast<off_t>(found.size()))) > 0;)
            found.append(block.data(), static_cast<std::size_t>(got));
        return found;
    }

    // Returns 0, or the error; writes with one call, or with further ones where that was cut short.
    static int write_all(int file, const std::string &data) {
        NoSignal none;
        int failure = 0, tries = 0;
        for (std::size_t at = 0; at < data.size() && !failure;) {
            ssize_t count = ::write(file, data.data() + at, data.size() - at);
            if (count > 0) {
                at += static_cast<std::size_t>(count);
                tries = 0;
            } else if (++tries > (count < 0 ? 100 : 3) || (count < 0 && errno != EINTR)) {
                failure = count < 0 ? errno : ENOSPC;
            }
        }
        return failure;
    }

    // Returns a descriptor of the regular file at the path, with both locks.
    static int locked(const std::string &path, int flags) {
        for (;;) {
            struct stat mine{}, there{};
            if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) throw Refused("this is not a regular file");
            int file = ::open(path.c_str(), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC | flags, 0666);
            if (file < 0) throw Refused(errno);
            if (fstat(file, &mine) != 0 || !S_ISREG(mine.st_mode) || !lock(file)) {
                ::close(file);
                throw Refused(S_ISREG(mine.st_mode) ? "another writer holds this stream (it is locked)" : "this is not a regular file");
            }
            // Between opening and locking, another writer may have moved the file.
            if (stat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) return file;
            ::close(file);
        }
    }

    // Takes both kinds of locks, as far as they are available, or gives them up; false if another writer has one.
    static bool lock(int file, bool takes = true) {
        auto is_held = [] { return errno == EAGAIN || errno == EACCES || errno == EWOULDBLOCK; };
        if (flock(file, takes ? LOCK_EX | LOCK_NB : LOCK_UN) != 0 && is_held()) return false;
#ifdef F_OFD_SETLK
        struct flock whole{};
        whole.l_type = takes ? F_WRLCK : F_UNLCK;
        if (fcntl(file, F_OFD_SETLK, &whole) != 0 && is_held()) return false;
#endif
        return true;
    }

    // Renames the file at the path to .prev, and an earlier one of that name to the first free .prev-N.
    static void keep(const std::string &path, std::vector<std::function<void()>> &undo) {
        std::string previous = path + ".prev";
        struct stat found{};
        if (lstat(previous.c_str(), &found) == 0) {
            std::string older = free_name(previous + "-1", 1, previous);
            if (rename(previous.c_str(), older.c_str()) != 0) throw Refused(errno);
            undo.push_back([older, previous] { std::rename(older.c_str(), previous.c_str()); });
        }
        if (rename(path.c_str(), previous.c_str()) != 0) throw Refused(errno);
        undo.push_back([previous, path] { std::rename(previous.c_str(), path.c_str()); });
    }

    static std::string free_name(std::string name, int first, const std::string &stem) {
        struct stat found{};
        for (int number = first; lstat(name.c_str(), &found) == 0; number++) name = stem + "-" + std::to_string(number);
        return name;
    }

    void sync_directory() const {
        int folder = ::open(directory_.c_str(), O_RDONLY | O_CLOEXEC);
        if (folder < 0) throw Refused(errno);
        int failure = fsync(folder) != 0 ? errno : 0;
        ::close(folder);
        if (failure && failure != EINVAL) throw Refused(failure);  // some file systems cannot sync a directory
    }
};

}  // namespace toyspec
