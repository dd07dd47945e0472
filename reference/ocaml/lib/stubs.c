/* Calls that the Unix library lacks: a write of any length in one call, a read at an offset, and both kinds of locks. */
#define _GNU_SOURCE
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <caml/unixsupport.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32

CAMLprim value toyspec_write(value fd, value bytes, value offset, value length) { caml_failwith("toyspec_write"); }
CAMLprim value toyspec_pread(value fd, value bytes, value length, value at) { caml_failwith("toyspec_pread"); }
CAMLprim value toyspec_lock(value fd) { caml_failwith("toyspec_lock"); }

#else

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

CAMLprim value toyspec_write(value fd, value bytes, value offset, value length) {
  CAMLparam4(fd, bytes, offset, length);
  size_t size = Long_val(length);
  int descriptor = Int_val(fd);
  /* While other threads run, the collector may move the bytes. */
  char *copy = malloc(size ? size : 1);
  ssize_t written;
  int error;
  if (!copy) caml_raise_out_of_memory();
  memcpy(copy, Bytes_val(bytes) + Long_val(offset), size);
  caml_enter_blocking_section();
  written = write(descriptor, copy, size);
  error = errno;
  caml_leave_blocking_section();
  free(copy);
  if (written < 0) unix_error(error, "write", Nothing);
  CAMLreturn(Val_long(written));
}

CAMLprim value toyspec_pread(value fd, value bytes, value length, value at) {
  ssize_t size;
  do size = pread(Int_val(fd), Bytes_val(bytes), Long_val(length), (off_t)Long_val(at));
  while (size < 0 && errno == EINTR);
  if (size < 0) uerror("pread", Nothing);
  return Val_long(size);
}

/* What a kind of lock says. */
enum { TAKEN, HELD, MISSING };

static int meaning(int result) {
  if (result != -1) return TAKEN;
  if (errno == EWOULDBLOCK || errno == EAGAIN || errno == EACCES) return HELD;
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return MISSING;
  return -1;
}

static int lock_whole_file(int descriptor) {
#if defined(__linux__) || !(defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__))
  struct flock whole;
  int answer;
  memset(&whole, 0, sizeof whole);
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
#ifdef __linux__
  /* F_OFD_SETLK belongs to the open file: closing another descriptor of the file does not give it up. */
  answer = meaning(fcntl(descriptor, 37, &whole));
#else
  answer = meaning(fcntl(descriptor, F_SETLK, &whole));
#endif
  return answer;
#else
  /* Here a record lock and flock exclude each other, even in one process. */
  (void)descriptor;
  return MISSING;
#endif
}

/* Takes flock and a record lock without waiting; false where another writer has one of them. */
CAMLprim value toyspec_lock(value fd) {
  int descriptor = Int_val(fd), answer;
  do answer = meaning(flock(descriptor, LOCK_EX | LOCK_NB));
  while (answer == -1 && errno == EINTR);
  if (answer == -1) uerror("flock", Nothing);
  if (answer == HELD) return Val_false;
  answer = lock_whole_file(descriptor);
  if (answer == -1) uerror("fcntl", Nothing);
  return Val_bool(answer != HELD);
}

#endif
