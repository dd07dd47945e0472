// Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit HELLO and `write`.

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

const char *const HELLO =
    R"({"hello": {"protocol": 1, "name": "my-emitter", "language": "C++", "version": "0.1", )"
    R"("roles": ["writer"], "profiles": ["toy/v1"], "revisions": ["1.3"], "lines": true, "capabilities": []}})";

// A value of JSON. The text is that of a string, the digits of an integer, which may have more than 64 bits, or that of
// a number, which strtod reads: "0.1", "nan", "-inf".
struct Value {
    enum Kind { null, boolean, integer, number, string, array, object } kind = null;
    bool flag = false;
    std::string text;
    std::vector<Value> items;
    std::vector<std::pair<std::string, Value>> members;
};

// Throw this if your emitter refuses a record; the text says why.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Returns the bytes that your emitter writes for the records. The `t` of a record is the time on the clock of the run.
std::string write(const std::vector<Value> &records) {
    (void)records;
    throw std::logic_error("still to do: call your emitter in `write` of adapter.cpp");
}

// Turns the tags of numbers into numbers.
void untag(Value &value) {
    for (Value &item : value.items) untag(item);
    if (value.kind != Value::object) return;
    if (value.members.size() == 1) {
        std::string tag = value.members[0].first;
        if (tag == "int" || tag == "float" || tag == "f32") {
            Value found = value.members[0].second;
            found.kind = tag == "int" ? Value::integer : Value::number;
            value = std::move(found);
            return;
        }
        if (tag == "object") {
            Value found = value.members[0].second;
            value = std::move(found);
        }
    }
    for (auto &member : value.members) untag(member.second);
}

// Reads what the runner sends, which is JSON without errors.
class Json {
  public:
    explicit Json(const std::string &line) : at_(line.c_str()) {}

    Value value() {
        Value found;
        switch (next()) {
        case '{':
            found.kind = Value::object;
            for (at_++; next() != '}';) {
                std::string key = string();
                next();
                at_++;
                found.members.emplace_back(std::move(key), value());
                if (next() == ',') at_++;
            }
            at_++;
            break;
        case '[':
            found.kind = Value::array;
            for (at_++; next() != ']';) {
                found.items.push_back(value());
                if (next() == ',') at_++;
            }
            at_++;
            break;
        case '"':
            found.kind = Value::string;
            found.text = string();
            break;
        case 't':
        case 'f':
            found.kind = Value::boolean;
            found.flag = *at_ == 't';
            at_ += found.flag ? 4 : 5;
            break;
        case 'n': at_ += 4; break;
        default:
            found.kind = Value::integer;
            while (*at_ && std::strchr("+-.eE0123456789", *at_)) found.text += *at_++;
        }
        return found;
    }

  private:
    char next() {
        while (*at_ == ' ') at_++;
        return *at_;
    }

    unsigned hex() {
        unsigned found = static_cast<unsigned>(std::strtoul(std::string(at_ + 1, 4).c_str(), nullptr, 16));
        at_ += 4;
        return found;
    }

    static void utf8(std::string &text, unsigned point) {
        auto put = [&text](unsigned byte) { text += static_cast<char>(byte); };
        if (point < 0x80) return put(point);
        if (point < 0x800) put(0xc0 | point >> 6);
        else if (point < 0x10000) put(0xe0 | point >> 12);
        else put(0xf0 | point >> 18), put(0x80 | (point >> 12 & 0x3f));
        if (point >= 0x800) put(0x80 | (point >> 6 & 0x3f));
        put(0x80 | (point & 0x3f));
    }

    std::string string() {
        std::string found;
        for (at_++; *at_ != '"'; at_++) {
            if (*at_ != '\\') {
                found += *at_;
                continue;
            }
            const char *const letters = "bfnrt";
            const char *place = std::strchr(letters, *++at_);
            if (place) found += "\b\f\n\r\t"[place - letters];
            else if (*at_ != 'u') found += *at_;
            else {
                unsigned point = hex();
                if (point >= 0xd800 && point < 0xdc00 && at_[1] == '\\' && at_[2] == 'u') {
                    at_ += 2;
                    point = 0x10000 + ((point - 0xd800) << 10) + (hex() - 0xdc00);
                }
                utf8(found, point);
            }
        }
        at_++;
        return found;
    }

    const char *at_;
};

std::string base64(const std::string &bytes) {
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string found;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        unsigned group = 0;
        for (std::size_t part = 0; part < 3; part++)
            group = group << 8 | (at + part < bytes.size() ? static_cast<unsigned char>(bytes[at + part]) : 0);
        for (std::size_t part = 0; part < 4; part++)
            found += at + part > bytes.size() ? '=' : letters[group >> (18 - 6 * part) & 63];
    }
    return found;
}

std::string quoted(const std::string &text) {
    std::string found = "\"";
    for (char letter : text) {
        if (letter == '"' || letter == '\\') found += '\\';
        found += letter >= 0 && letter < ' ' ? ' ' : letter;
    }
    return found + '"';
}

std::string written(std::vector<Value> records) {
    for (Value &record : records) untag(record);
    return write(records);
}

int oneshot() {
    std::vector<Value> records;
    for (std::string line; std::getline(std::cin, line);) records.push_back(Json(line).value());
    try {
        std::cout << written(records);
        return 0;
    } catch (const Refused &error) {
        std::cerr << error.what();
        return 1;
    } catch (const std::exception &error) {
        std::cerr << error.what();
        return 2;
    }
}

int main(int count, char **arguments) {
    std::string mode = count > 1 ? arguments[1] : "--hello";
    if (mode == "--oneshot") return oneshot();
    std::cout << HELLO << std::endl;
    for (std::string line; mode == "--lines" && std::getline(std::cin, line);) {
        std::string id, found;
        std::vector<Value> records;
        for (auto &member : Json(line).value().members) {
            if (member.first == "id") id = member.second.text;
            if (member.first == "records") records = member.second.items;
        }
        try {
            found = "\"outcome\": \"written\", \"stream\": \"" + base64(written(records)) + '"';
        } catch (const Refused &error) {
            found = "\"outcome\": \"refused\", \"reason\": " + quoted(error.what());
        } catch (const std::exception &error) {
            found = "\"error\": " + quoted(error.what());
        }
        std::cout << "{\"id\": " << id << ", " << found << "}" << std::endl;
    }
}
