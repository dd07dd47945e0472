# frozen_string_literal: true

module Toyspec
  # Raised for a stream that cannot be written to: it is not a regular file, is there already, complete, damaged or
  # without a profile, or another writer has it; or the writer is closed.
  class StreamRefusedError < Error; end

  # The file of one stream, locked, open for appending. Each line is one write, and is in the file whole or not at all.
  class StreamFile
    # After these errors of a write, a later one may succeed.
    PASSING = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::EINTR, Errno::EAGAIN].freeze
    FLAGS = File::RDWR | File::APPEND | File::BINARY | (defined?(File::NONBLOCK) ? File::NONBLOCK : 0)
    # How often a file may be replaced by others while it is opened.
    ATTEMPTS = 100
    RETRIES = 100

    attr_reader :path

    # Opens the file at a path, creates it where it is missing, and locks it. Raises StreamRefusedError.
    def self.open(path)
      ATTEMPTS.times do
        check_regular(path)
        created = !SideFiles.there?(path)
        file = File.open(path, FLAGS | File::CREAT, 0o666)
        opened = new(path, file, created)
        return opened if opened.take
      end
      raise StreamRefusedError, "#{path}: other programs replace the file again and again"
    rescue Errno::EISDIR, Errno::ENXIO
      raise StreamRefusedError, "#{path}: not a regular file"
    end

    # Opens a new file at a path. A file that is there and not empty moves to <path>.prev.
    def self.replace(path)
      moved = []
      ATTEMPTS.times do
        file = open(path)
        return file.tap { |new_file| new_file.moved = moved } if file.size.zero?

        moved = move_away(path, file)
      end
      raise StreamRefusedError, "#{path}: other programs replace the file again and again"
    rescue SystemCallError
      SideFiles.restore(moved)
      raise
    end

    def self.move_away(path, file)
      # Windows does not rename an open file.
      file.close if Gem.win_platform?
      SideFiles.keep_previous(path)
    ensure
      file.close
    end

    def self.check_regular(path)
      raise StreamRefusedError, "#{path}: not a regular file" if File.exist?(path) && !File.file?(path)
    end
    private_class_method :new, :check_regular, :move_away

    # The renames that made room for this file, as SideFiles.keep_previous returns them.
    attr_writer :moved

    # Returns whether there was no file before.
    def created?
      @created
    end

    def initialize(path, file, created)
      @path, @file, @created, @process, @moved = path, file, created, Process.pid, []
      @file.sync = true
      ignore_size_signal
    end

    # Locks the file that was opened. Returns false, and closes it, where it is no longer the one at its path.
    def take
      refuse("not a regular file") unless @file.stat.file?
      refuse("another writer has the stream") unless Locks.take(@file)
      return true if at_path?

      close
      false
    rescue SystemCallError, Error
      close
      raise
    end

    # Returns whether the path still names this file.
    def at_path?
      here, there = @file.stat, File.stat(@path)
      [here.dev, here.ino] == [there.dev, there.ino]
    rescue Errno::ENOENT, Errno::ENOTDIR
      false
    end

    def size
      @file.size
    end

    def closed?
      @file.nil? || @process != Process.pid
    end

    # Returns why the file was closed for good, nil where it was not.
    attr_reader :closed_because

    # Yields the file for reading from its start.
    def read
      @file.rewind
      yield @file
    ensure
      @file&.seek(0, IO::SEEK_END)
    end

    # Appends all bytes of another stream's file, and forces them to the disk.
    def copy(other)
      SideFiles.copy_from(other.file, 0, @file)
      @moved = []
      sync
    end

    # Moves the bytes from an offset on, which are not a whole line, to a side file, and forces all that to the disk.
    # Returns the path of the side file.
    def move_fragment(offset)
      side = SideFiles.keep_fragment(@path, @file, offset)
      cut(offset) { File.unlink(side) }
      @file.fsync
      side
    end

    # Writes a line and its LF, then yields. Where it raises SystemCallError, nothing of the line is in the file, or the
    # file is closed for good. An exception of a signal comes out once it is clear whether the line is in the file.
    def append(line)
      start, written = @file.sysseek(0, IO::SEEK_CUR), 0
      begin
        written += write_some(line, written) while written < line.bytesize
      rescue SystemCallError => error
        fail_write(line, written, error)
      rescue Exception # A signal's: the line may be in the file.
        yield if settle(line, start)
        raise
      end
      yield
      move_ranks
    end

    # Forces the file and its directory to the disk. A failure closes the file for good: what was written may be lost,
    # and a second call could not tell.
    def sync
      @file.fsync
      SideFiles.sync_directory(@path)
    rescue SystemCallError => error
      close_for_good("fsync failed (#{error.message}); records that were written may be lost")
      raise
    end

    def close
      @file&.close
      @file = nil
    rescue SystemCallError
      @file = nil
    end

    # Closes the file. Removes it where it was created here and is still empty; an earlier stream moves back.
    def discard
      return if closed? || !@created || !@file.size.zero? || !at_path?

      File.unlink(@path)
      SideFiles.restore(@moved)
    rescue SystemCallError
      nil
    ensure
      close
    end

    # Closes the file as if nothing had been written to it.
    def abandon
      @file&.truncate(0)
      discard
    rescue SystemCallError
      close
    end

    # Closes the file. A start that failed leaves everything as it was.
    def close_for_good(reason)
      @closed_because ||= reason
      discard
    end

    protected

    attr_reader :file

    private

    # Moves the streams of the other ranks of a run that was replaced, as its own was. One that a writer holds is of a process
    # of the new run, which began before this one.
    def move_ranks
      return if @moved.empty?

      @moved, directory = [], File.dirname(@path)
      BundleFiles.ranks(directory).each { |rank| move_rank(File.join(directory, BundleFiles.rank_file(rank))) }
    end

    def move_rank(path)
      file = StreamFile.open(path)
      StreamFile.send(:move_away, path, file) unless file.size.zero?
    rescue SystemCallError, StreamRefusedError
      nil
    ensure
      file&.close
    end

    def refuse(reason)
      raise StreamRefusedError, "#{@path}: #{reason}"
    end

    # Returns the number of bytes that one write took.
    def write_some(line, written)
      retries = 0
      begin
        taken = @file.syswrite(written.zero? ? line : line.byteslice(written..))
        taken.positive? ? taken : raise(Errno::EIO, @path)
      rescue Errno::EINTR, Errno::EAGAIN
        (retries += 1) <= RETRIES ? retry : raise
      end
    end

    # Cuts the file; where that fails, yields first.
    def cut(offset)
      @file.truncate(offset)
    rescue SystemCallError
      yield
      raise
    end

    def fail_write(line, written, error)
      unless take_back(line, written)
        close_for_good("part of a line was written (#{error.message}) and cannot be removed")
      end
      close_for_good(error.message) unless PASSING.any? { |passing| passing === error }
      raise error
    end

    # Removes the first bytes of a line, which the last write has appended. Returns whether none of them is left. Bytes
    # of others are never removed, and a file that others have emptied does not grow.
    def take_back(line, written)
      return true if written.zero?

      ending = @file.sysseek(0, IO::SEEK_CUR)
      start, size = ending - written, @file.size
      return true if size <= start
      return false if size > ending || SideFiles.read_at(@file, start, written) != line.byteslice(0, size - start)

      @file.truncate(start)
      true
    rescue SystemCallError
      false
    end

    # Finds out what an interrupted write did, and removes a part of the line. Returns whether the whole line is there.
    def settle(line, start)
      written = @file.sysseek(0, IO::SEEK_CUR) - start
      return false if written.zero?
      return true if written >= line.bytesize && ends_with?(line)

      close_for_good("a write was interrupted") unless written < line.bytesize && take_back(line, written)
      false
    end

    # Returns whether the bytes before the position are those of a line.
    def ends_with?(line)
      start = @file.sysseek(0, IO::SEEK_CUR) - line.bytesize
      start >= 0 && SideFiles.read_at(@file, start, line.bytesize) == line
    end

    # A file that reaches its size limit must give EFBIG, as a full disk gives ENOSPC, and not end the program.
    def ignore_size_signal
      previous = Signal.trap("XFSZ", "IGNORE")
      Signal.trap("XFSZ", previous) unless [nil, "DEFAULT", "SYSTEM_DEFAULT", "IGNORE"].include?(previous)
    rescue ArgumentError
      nil # The platform has no such signal.
    end
  end
end
