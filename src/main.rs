//! The program: parses arguments and hands over to `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cksd::cli::run()
}
