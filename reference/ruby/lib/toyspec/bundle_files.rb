# frozen_string_literal: true

require "digest"
require "fileutils"

module Toyspec
  # The files of a run beside its stream, by their names: streams of other ranks, and media.
  module BundleFiles
    RANK = /\Aevents\.rank-([1-9][0-9]{0,8})\.jsonl\z/
    # A path that leaves the bundle, on any system.
    OUTSIDE = %r{\A[/\\]|\A[A-Za-z]:|(?:\A|[/\\])\.\.(?:[/\\]|\z)}

    module_function

    # Returns the ranks from 1 on that have a stream in the directory of a run, in order.
    def ranks(directory)
      names = Dir.children(directory).select { |name| File.file?(File.join(directory, name)) }
      names.filter_map { |name| RANK.match(name)&.[](1)&.to_i }.sort
    end

    # Returns the name of the stream of a rank, which Toyspec.read reads in the directory of its run.
    def rank_file(rank)
      rank.zero? ? PROFILES["toy/v1"]["file"] : "events.rank-#{rank}.jsonl"
    end

    # Raises RefusedError for an artifact that is not in the bundle.
    def check_artifact(record)
      path = record["path"]
      return unless record["kind"] == "artifact" && path.is_a?(String) && path.valid_encoding? && OUTSIDE.match?(path)

      raise RefusedError, "the path #{path.inspect} leaves the bundle: copy the file into it, or write a reference"
    end

    # Writes a content into the folder media of a bundle: the file is whole under its name, or not there.
    def store(directory, digest, media_type, content)
      folder = File.join(directory, "media")
      raise RefusedError, "#{folder} must be a folder of the bundle, not a link or a file" if other_than_folder?(folder)

      path = File.join(folder, "#{digest}.#{extension(media_type)}")
      return if File.file?(path) && !File.symlink?(path) && File.size(path) == content.bytesize

      FileUtils.mkdir_p(folder)
      replace(path, content)
    end

    def extension(media_type)
      MEDIA["extensions"].fetch(media_type.split(";", 2).first.to_s.gsub(/\A[ \t]+|[ \t]+\z/, "").downcase, MEDIA["other"])
    end

    def other_than_folder?(path)
      File.symlink?(path) || (File.exist?(path) && !File.directory?(path))
    end

    def replace(path, content)
      temporary = "#{path}.#{Process.pid}.tmp"
      File.open(temporary, "wb") { |file| file.write(content) && file.fsync }
      File.rename(temporary, path)
    rescue SystemCallError
      FileUtils.rm_f(temporary)
      raise
    end
  end
end
