# frozen_string_literal: true

module Toyspec
  # Locks the file of a stream, so that one writer at a time has it.
  #
  # Two kinds are taken, because each kind of program sees only one of them: flock, and a record lock on the whole file.
  # A writer on the JVM or in OCaml's Unix library sees record locks only.
  module Locks
    HELD = [Errno::EWOULDBLOCK, Errno::EAGAIN, Errno::EACCES].freeze
    # The file system, or the platform, does not have this kind.
    MISSING = [Errno::ENOLCK, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EINVAL].freeze
    # F_OFD_SETLK and F_WRLCK of Linux. Unlike a POSIX lock, this one belongs to the open file, not to the process.
    OFD_SETLK = 37
    WRITE_LOCK = 1
    # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid. The whole file is 0, 0.
    WHOLE_FILE = [WRITE_LOCK, 0, 0, 0, 0].pack("s!s!x4q!q!i!x4").freeze

    module_function

    # Takes both kinds without waiting. Returns false where another writer has the file. Returns true where a kind is
    # missing, even where both are.
    def take(file)
      take_flock(file) && take_record_lock(file)
    end

    def take_flock(file)
      file.flock(File::LOCK_EX | File::LOCK_NB) != false
    rescue *HELD
      false
    rescue *MISSING, NotImplementedError
      true
    end

    def take_record_lock(file)
      return true unless RUBY_PLATFORM.include?("linux") && [0].pack("l!").bytesize == 8

      file.fcntl(OFD_SETLK, WHOLE_FILE.dup)
      true
    rescue *HELD
      false
    rescue *MISSING, NotImplementedError
      true
    end
  end
end
