# frozen_string_literal: true

require_relative "lib/toyspec"

Gem::Specification.new do |spec|
  spec.name = "toyspec"
  spec.version = Toyspec::VERSION
  spec.summary = "Reads and writes training logs in JSON Lines"
  spec.authors = ["The toyspec developers"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "README.md"]
end
