//! The program: parses arguments and hands over to `cli`.

fn main() {}
