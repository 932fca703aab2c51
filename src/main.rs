//! The `forge` binary: runs the library's command line.

fn main() -> std::process::ExitCode {
    forge::cli::main()
}
