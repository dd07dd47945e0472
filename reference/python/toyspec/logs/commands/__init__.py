"""The commands of this room: each is a module of its name."""
