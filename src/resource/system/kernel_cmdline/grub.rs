//! The step's own GRUB settings file, and the effect of files that are read after it.

use super::kernel_arguments::{DeclaredArguments, KernelArgument, join_arguments, split_cmdline};
use crate::probe::ConfLine;
use serde::Serialize;

pub(super) const FOLDER: &str = "/etc/default/grub.d";

/// Returns the body of the step's own file. `grub-mkconfig` sources it as shell after `/etc/default/grub` and the files
/// with earlier names. The body removes their settings of the same names and appends the declared arguments.
pub(super) fn render_settings(wanted: &DeclaredArguments) -> String {
    let mut patterns: Vec<String> = wanted.argument_names().iter().map(|name| name_pattern(name)).collect();
    patterns.extend(wanted.absent.iter().map(|text| argument_pattern(&KernelArgument::parse(text))));
    let added = if wanted.args.is_empty() { String::new() } else { format!(" {}", wanted.args.join(" ")) };
    format!(
        "# Managed by forge.\n\
         forge_words() (\n  set -f\n  out=\n  for word in $1; do\n    case $word in\n      {}) ;;\n      \
         *) out=\"$out $word\" ;;\n    esac\n  done\n  printf '%s' \"${{out# }}\"\n)\n\
         GRUB_CMDLINE_LINUX=\"$(forge_words \"$GRUB_CMDLINE_LINUX\"){added}\"\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"$(forge_words \"$GRUB_CMDLINE_LINUX_DEFAULT\")\"\n",
        patterns.join(" | ")
    )
}

/// Returns a shell pattern that matches every argument of a name.
fn name_pattern(name: &str) -> String {
    let name = name.replace('_', "[-_]");
    format!("{name} | {name}=*")
}

fn argument_pattern(word: &KernelArgument) -> String {
    match &word.value {
        None => name_pattern(&word.name),
        Some(value) => format!("{}={value}", word.name.replace('_', "[-_]")),
    }
}

/// A line that is read after the step's own file and overrides it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct GrubOverride {
    /// `file:line`.
    pub place: String,
    pub does: String,
}

/// A GRUB variable assignment in one line.
struct GrubSetting {
    default: bool,
    /// Whether it extends the previous value.
    keeps: bool,
    words: Vec<KernelArgument>,
}

fn parse_setting(text: &str) -> Option<GrubSetting> {
    let text = text.trim_start();
    let (name, value) = text.strip_prefix("export ").unwrap_or(text).split_once('=')?;
    let default = match name.trim_end_matches('+') {
        "GRUB_CMDLINE_LINUX" => false,
        "GRUB_CMDLINE_LINUX_DEFAULT" => true,
        _ => return None,
    };
    let keeps = value.contains("$GRUB_CMDLINE_LINUX") || value.contains("${GRUB_CMDLINE_LINUX") || value.contains("$(");
    // Quotes enclose the whole value, and the names of shell variables are not kernel arguments.
    let plain = value.replace(['"', '\''], " ");
    Some(GrubSetting { default, keeps, words: split_cmdline(&plain) })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the last line that is read after the file at `own` and conflicts with it. `GRUB_CMDLINE_LINUX_DEFAULT` comes
/// after `GRUB_CMDLINE_LINUX` on the command line, so its arguments override.
pub(super) fn find_override(lines: &[ConfLine], own: &str, wanted: &DeclaredArguments) -> Option<GrubOverride> {
    let later = |line: &&ConfLine| line.file.starts_with(FOLDER) && file_name(&line.file) > file_name(own);
    let undone = |line: &ConfLine| {
        Some(GrubOverride {
            place: line.format_location(),
            does: describe_override(&parse_setting(&line.text)?, wanted)?,
        })
    };
    lines.iter().filter(later).rev().find_map(undone)
}

fn describe_override(set: &GrubSetting, wanted: &DeclaredArguments) -> Option<String> {
    if !set.default && !set.keeps && !wanted.args.is_empty() {
        return Some("replaces all of `GRUB_CMDLINE_LINUX`".to_owned());
    }
    let present = wanted.parse_present();
    let differs = |word: &&KernelArgument| {
        let declared: Vec<&KernelArgument> = present.iter().filter(|own| own.name == word.name).collect();
        wanted.is_absent(word) || declared.last().is_some_and(|last| *last != *word)
    };
    let bad: Vec<KernelArgument> = set.words.iter().filter(differs).cloned().collect();
    (!bad.is_empty()).then(|| format!("sets `{}`", join_arguments(&bad)))
}

/// Reports whether a file other than `own` sets the same argument.
pub(super) fn is_set_elsewhere(lines: &[ConfLine], own: &str, word: &KernelArgument) -> bool {
    let others = lines.iter().filter(|line| line.file != own).filter_map(|line| parse_setting(&line.text));
    others.flat_map(|set| set.words).any(|other| other == *word)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the file is a shell's: a shell reads it here")]
mod tests {
    use super::*;

    fn make_arguments(args: &[&str], absent: &[&str]) -> DeclaredArguments {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        DeclaredArguments::new(own(args), own(absent)).unwrap()
    }

    /// Sources the file in a shell with `set -e`, as grub-mkconfig does, and returns both variables.
    fn source_with_shell(shell: &str, before: &str, body: &str) -> String {
        let script =
            format!("set -e\n{before}\n{body}\nprintf '%s|%s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"");
        let output = std::process::Command::new(shell).args(["-c", &script]).env_clear().output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn rendered_grub_settings_evaluate_correctly_in_shells() {
        let own = render_settings(&make_arguments(&["iommu=pt", "nvme_core.multipath=N"], &["quiet", "console=tty9"]));
        let before = "GRUB_CMDLINE_LINUX='nvme-core.multipath=Y console=tty0 x=*'\n\
                      GRUB_CMDLINE_LINUX_DEFAULT='quiet splash iommu=off console=tty9'";
        for shell in ["dash", "bash"] {
            assert_eq!(
                source_with_shell(shell, before, &own),
                "console=tty0 x=* iommu=pt nvme_core.multipath=N|splash",
                "{shell}"
            );
            assert_eq!(source_with_shell(shell, "", &own), " iommu=pt nvme_core.multipath=N|");
            assert_eq!(
                source_with_shell(shell, before, &format!("{own}{own}")),
                source_with_shell(shell, before, &own),
                "read twice"
            );
        }
    }

    fn find_override_text(file: &str, text: &str) -> Option<String> {
        let lines = [ConfLine { file: file.into(), line: 2, text: text.into() }];
        find_override(&lines, "/etc/default/grub.d/60-forge.cfg", &make_arguments(&["iommu=pt"], &["quiet"]))
            .map(|over| format!("{} {}", over.place, over.does))
    }

    #[test]
    fn only_later_conflicting_assignments_override() {
        let later = "/etc/default/grub.d/90-site.cfg";
        assert_eq!(find_override_text("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"iommu=off\""), None);
        assert_eq!(find_override_text("/etc/default/grub.d/50-cloudimg.cfg", "GRUB_CMDLINE_LINUX=\"iommu=off\""), None);
        assert_eq!(find_override_text(later, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX crashkernel=1G\""), None);
        assert_eq!(find_override_text(later, "GRUB_CMDLINE_LINUX_DEFAULT=\"splash\""), None);
        assert_eq!(find_override_text(later, "# GRUB_CMDLINE_LINUX=\"\""), None);
        assert_eq!(
            find_override_text(later, "GRUB_CMDLINE_LINUX=\"crashkernel=1G\"").as_deref(),
            Some("/etc/default/grub.d/90-site.cfg:2 replaces all of `GRUB_CMDLINE_LINUX`")
        );
        assert_eq!(
            find_override_text(later, "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT quiet iommu=off\"")
                .as_deref(),
            Some("/etc/default/grub.d/90-site.cfg:2 sets `quiet iommu=off`")
        );
    }
}
