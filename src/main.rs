//! argv in, exit code out; everything else is the library's.

fn main() -> std::process::ExitCode {
    forge::cli::main()
}
