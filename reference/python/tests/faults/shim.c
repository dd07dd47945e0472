/* Lets one call on one file fail, or take only a part: preloaded in front of the C library.
   SHIM_PATH, SHIM_CALL (write, fsync, ftruncate, close), SHIM_AT (from 1), SHIM_ERRNO, SHIM_SHORT (bytes that are
   taken instead of failing), SHIM_LASTING (1: all later calls fail as well). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int made;

static int number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static int is_meant(const char *call, int descriptor) {
    const char *wanted = getenv("SHIM_CALL"), *path = getenv("SHIM_PATH");
    char link[64], target[PATH_MAX];
    ssize_t length;
    if (!wanted || !path || strcmp(wanted, call) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    if (strcmp(target, path) != 0) return 0;
    made++;
    return made == number("SHIM_AT") || (made > number("SHIM_AT") && number("SHIM_LASTING"));
}

ssize_t write(int descriptor, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (is_meant("write", descriptor)) {
        size_t part = (size_t)number("SHIM_SHORT");
        if (made == number("SHIM_AT") && part > 0 && part < size) return real(descriptor, data, part);
        errno = number("SHIM_ERRNO");
        return errno ? -1 : 0;
    }
    return real(descriptor, data, size);
}

int fsync(int descriptor) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (is_meant("fsync", descriptor)) { errno = number("SHIM_ERRNO"); return -1; }
    return real(descriptor);
}

static int truncated(int descriptor, off_t size, const char *name) {
    int (*real)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, name);
    if (is_meant("ftruncate", descriptor)) { errno = number("SHIM_ERRNO"); return -1; }
    return real(descriptor, size);
}

int ftruncate(int descriptor, off_t size) { return truncated(descriptor, size, "ftruncate"); }
int ftruncate64(int descriptor, off64_t size) { return truncated(descriptor, (off_t)size, "ftruncate64"); }

int close(int descriptor) {
    static int (*real)(int);
    int fails;
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "close");
    fails = is_meant("close", descriptor);
    if (fails) { real(descriptor); errno = number("SHIM_ERRNO"); return -1; }
    return real(descriptor);
}
