//! The files that a sandbox has in addition to those of this machine: stand-ins for a machine's programs, and the files
//! of its board.

use super::hardware;
use super::sandbox_file::{SandboxFile, data_file, program_file};
use crate::model::HardwareBoard;

/// Files of every sandbox.
const COMMON_FILES: &[SandboxFile] = &[
    program_file("usr/local/sbin/systemctl", include_str!("systemctl.sh")),
    program_file("usr/local/sbin/systemd-run", include_str!("systemd-run.sh")),
    program_file("usr/local/sbin/journalctl", include_str!("journalctl.sh")),
    program_file("usr/local/lib/forge-sandbox/reboot", include_str!("reboot.sh")),
    program_file("usr/local/lib/forge-sandbox/clock", include_str!("clock.sh")),
];

/// Files of the view of a host in addition to those of every sandbox: they separate downloads from everything else.
const VIEW_FILES: &[SandboxFile] = &[
    program_file("usr/local/sbin/apt", include_str!("apt-get.sh")),
    program_file("usr/local/sbin/apt-get", include_str!("apt-get.sh")),
    program_file("usr/local/sbin/dnf", include_str!("dnf.sh")),
    program_file("usr/local/sbin/yum", include_str!("dnf.sh")),
];

/// Heredoc delimiter of a file in the script. No text contains such a line.
const END: &str = "__end_of_stand_in__";

/// Returns the shell script that writes every file of a sandbox with this board below its working directory.
pub(super) fn render_write_script(board: Option<HardwareBoard>) -> String {
    let cards = board.map(|board| data_file("srv/forge-hardware/board", board.cards));
    let hardware: &[SandboxFile] = if board.is_some() { hardware::HARDWARE_FILES } else { &[] };
    COMMON_FILES.iter().chain(hardware).chain(&cards).map(render_write_file).collect()
}

/// Returns the shell script that writes every file of the view of a host below its working directory.
pub(super) fn render_view_script() -> String {
    COMMON_FILES.iter().chain(VIEW_FILES).map(render_write_file).collect()
}

fn render_write_file(file: &SandboxFile) -> String {
    let SandboxFile { path, text, is_program } = file;
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let mode = if *is_program { format!("chmod 755 {path} || exit 1\n") } else { String::new() };
    format!("mkdir -p {folder} && cat >{path} <<'{END}' || exit 1\n{text}{newline}{END}\n{mode}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BOARDS;

    /// The longest argument that Linux accepts.
    const ARGUMENT: usize = 128 * 1024;

    #[test]
    fn script_writes_every_file_unchanged() {
        for board in [None, Some(BOARDS[0]), Some(BOARDS[4])] {
            let folder = tempfile::tempdir().unwrap();
            let script = render_write_script(board);
            assert!(script.len() < ARGUMENT, "{}", script.len());
            #[expect(clippy::disallowed_methods, reason = "a test may start programs")]
            let mut sh = std::process::Command::new("/bin/sh");
            assert!(sh.arg("-ec").arg(script).current_dir(folder.path()).status().unwrap().success());
            let hardware: &[SandboxFile] = if board.is_some() { hardware::HARDWARE_FILES } else { &[] };
            for file in COMMON_FILES.iter().chain(hardware) {
                let written = fs_err::read_to_string(folder.path().join(file.path)).unwrap();
                assert_eq!(written.trim_end_matches('\n'), file.text.trim_end_matches('\n'), "{}", file.path);
                assert!(!file.text.lines().any(|line| line == END), "{}", file.path);
            }
        }
    }

    #[test]
    fn script_of_a_view_fits_into_an_argument() {
        let script = render_view_script();
        assert!(script.len() < ARGUMENT, "{}", script.len());
        assert!(!VIEW_FILES.iter().any(|file| file.text.lines().any(|line| line == END)));
    }
}
