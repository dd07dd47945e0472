// Lets the fault runner drive the C++ emitter: see PROTOCOL.md, durable writers.

#include "../toyspec_emitter.hpp"

#include <sys/wait.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

namespace {

std::unique_ptr<toyspec::Run> run;

std::string said(bool is_written) { return is_written ? "ok" : "failed " + run->error; }

std::string value(const std::string &name) {
    if (name == "nan") return said(run->step(1000, {{"loss", std::nan("")}}));
    if (name == "bad-utf8") return said(run->note("\xff"));
    if (name == "long") return said(run->note(std::string(17000000, 'x')));
    if (name == "no-kind") return said(run->record("\"m\":1"));
    if (name == "long-integer") return said(run->record("\"kind\":\"step\",\"step\":1" + std::string(400, '0')));
    if (name == "deep")
        return said(run->record("\"kind\":\"mine\",\"m\":" + std::string(100, '[') + std::string(100, ']')));
    return "untestable this emitter takes numbers and text alone";
}

std::string in_child(long step) {
    pid_t child = fork();
    if (child == 0) _exit(run->step(step, {{"loss", 0.5}}) ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) ? "failed child crashed" : WEXITSTATUS(status) == 0 ? "ok" : "failed in the child";
}

std::string answer(const std::string &line) {
    std::istringstream words(line);
    std::string command, rest;
    words >> command;
    std::getline(words >> std::ws, rest);
    if (command == "append" || command == "entry" || command == "bundle")
        return "untestable the emitter writes toy/v1 alone, without a RunBundle";
    if (command == "open") {
        std::string exist = rest.substr(0, rest.find(' ')), directory = rest.substr(rest.find(' ') + 1);
        auto how = exist == "fail" ? toyspec::Exist::fail : exist == "resume" ? toyspec::Exist::resume : toyspec::Exist::replace;
        auto opened = std::make_unique<toyspec::Run>(directory, how, "demo");
        if (!opened->error.empty()) return "failed " + opened->error;
        run = std::move(opened);
        return "ok";
    }
    if (command == "start") return said(run->start());
    if (command == "resume") return said(run->resume(std::stol(rest)));
    if (command == "step") return said(run->step(std::stol(rest), {{"loss", 0.5}}));
    if (command == "note") return said(run->note(std::string(std::stoul(rest.substr(rest.find(' '))), 'x'), std::stol(rest)));
    if (command == "end") return said(run->end());
    if (command == "fork") return in_child(std::stol(rest));
    if (command == "value") return value(rest);
    if (command == "dropped") return "ok " + std::to_string(run->dropped);
    if (command == "read") {
        std::ifstream file(rest);
        std::ostringstream all;
        all << file.rdbuf();
    }
    if (command == "close" && run) run->close();
    return "ok";
}

}  // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
}
