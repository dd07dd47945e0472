# frozen_string_literal: true

module Toyspec
  # The files beside a stream: earlier logs and fragments. None is ever deleted or overwritten.
  module SideFiles
    # A directory cannot be synced on some systems and file systems.
    CANNOT_SYNC = [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EACCES, Errno::EPERM, Errno::EBADF, Errno::EISDIR].freeze

    module_function

    # Renames a stream to <path>.prev; an earlier .prev moves to the next free .prev-N first. The caller holds the
    # stream's lock. Returns the pairs of old and new names, the last first. Where a rename fails, none is left.
    def keep_previous(path)
      moved, previous = [], "#{path}.prev"
      moves = [[path, previous]]
      moves.unshift([previous, free_name(previous)]) if there?(previous)
      moves.each { |names| File.rename(*names) && moved.unshift(names) }
      moved
    rescue SystemCallError
      restore(moved)
      raise
    end

    # Takes renames back, as far as no other file has an old name by now.
    def restore(moved)
      moved.each { |old, new| there?(old) ? break : File.rename(new, old) }
    rescue SystemCallError
      nil
    end

    def there?(path)
      File.exist?(path) || File.symlink?(path)
    end

    # Returns the first of <path>-1, <path>-2, … that is not there.
    def free_name(path)
      (1..).each do |number|
        name = "#{path}-#{number}"
        return name unless there?(name)
      end
    end

    # Copies the bytes of an open stream from an offset on into <path>.torn-<offset>, or the first free one of
    # <path>.torn-<offset>-2, -3, …, and syncs the copy and its directory. Returns its path. A copy that fails is removed.
    def keep_fragment(path, stream, offset)
      copy = create_first_free("#{path}.torn-#{offset}")
      begin
        copy_from(stream, offset, copy)
        copy.fsync
        sync_directory(path)
      rescue SystemCallError
        File.unlink(copy.path)
        raise
      ensure
        copy.close
      end
      copy.path
    end

    # Copies the bytes of an open file from an offset on to the end of another.
    def copy_from(source, offset, target)
      while (chunk = read_at(source, offset, 1 << 20))
        target.write(chunk)
        offset += chunk.bytesize
      end
      target.flush
    end

    # Returns at most so many bytes at an offset, nil at the end of the file.
    def read_at(source, offset, length)
      source.pread(length, offset)
    rescue EOFError
      nil
    end

    # Forces the entry of a file in its directory to the disk, where the system can do that.
    def sync_directory(path)
      File.open(File.dirname(path), &:fsync) unless Gem.win_platform?
    rescue *CANNOT_SYNC
      nil
    end

    def create_first_free(path)
      (1..).each do |number|
        name = number == 1 ? path : "#{path}-#{number}"
        return File.open(name, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, 0o666)
      rescue Errno::EEXIST
        next
      end
    end
  end
end
