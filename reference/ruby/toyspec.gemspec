# frozen_string_literal: true

require_relative "lib/toyspec"

Gem::Specification.new do |spec|
  spec.name = "toyspec"
  spec.version = Toyspec::VERSION
  spec.summary = "Reads and writes training logs in JSON Lines"
  spec.authors = ["The toyspec developers"]
  spec.license = "Apache-2.0"
  spec.homepage = "https://toyspec.example.org/"
  spec.metadata = {
    "bug_tracker_uri" => "https://git.example.org/toyspec/toyspec/issues",
    "source_code_uri" => "https://git.example.org/toyspec/toyspec",
  }
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "README.md", "LICENSE"]
end
