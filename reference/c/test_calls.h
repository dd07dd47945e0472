/* Comes before toyspec.c when it is compiled for the tests: the calls that a test makes fail. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

ssize_t test_write(int descriptor, const void *bytes, size_t length);
int test_fsync(int descriptor);
int test_flock(int descriptor, int operation);
int test_clock_gettime(clockid_t clock, struct timespec *now);

#ifndef TEST_CALLS_ARE_REAL
#undef _POSIX_C_SOURCE
#undef _FILE_OFFSET_BITS
#undef _DEFAULT_SOURCE
#undef _DARWIN_C_SOURCE
#define write test_write
#define fsync test_fsync
#define flock(descriptor, operation) test_flock(descriptor, operation)
#define clock_gettime test_clock_gettime
#endif

#endif
