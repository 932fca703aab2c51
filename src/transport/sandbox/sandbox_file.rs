//! One file of a sandbox.

/// A file of a sandbox: its path below `/`, and its text.
pub(super) struct SandboxFile {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) is_program: bool,
}

/// Declares a program.
pub(super) const fn program_file(path: &'static str, text: &'static str) -> SandboxFile {
    SandboxFile { path, text, is_program: true }
}

/// Declares a file that is not a program.
pub(super) const fn data_file(path: &'static str, text: &'static str) -> SandboxFile {
    SandboxFile { path, text, is_program: false }
}
