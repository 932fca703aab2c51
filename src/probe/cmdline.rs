//! The kernel's command line: that of the running kernel, and that of the next boot according to the boot loader's
//! menu.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{BootEntry, BootLoader, CmdlineState, Observation, ProbeReading, confd};
use crate::model::UntrustedText;

/// Prints the container's type, empty on a machine; also used for initramfs images.
///
/// Docker leaves `/.dockerenv`, and images of Ubuntu have `/run/systemd/container` with `docker`. An image that became the
/// disk of a machine keeps both. So they do not count where process 2 is the kernel's own (the first process namespace) and
/// the root is the whole of a file system on a disk.
pub(super) const CONTAINER_SNIPPET: &str = r#"
forge_container() {
c=
if [ -r /run/systemd/container ]; then IFS= read -r c </run/systemd/container || [ -n "$c" ] || c=container
elif [ -e /.dockerenv ]; then c=docker
fi
if [ "$c" = docker ] && IFS= read -r k 2>/dev/null </proc/2/comm && [ "$k" = kthreadd ]; then
while read -r _ _ _ r m x; do
[ "$m" != / ] || case "$r $x" in '/ '*' - overlay '*) c=docker ;; '/ '*) c= ;; *) c=docker ;; esac
done </proc/self/mountinfo
fi
printf 'container\0%s\0' "$c"
}
"#;

/// Prints fields: `loaded` and the command line; `container`; `loader` and its type. For GRUB as in Debian, these
/// follow: its lines as printed by `grep`, `end`, `menu` and the lines of its menu that identify entries. For grubby:
/// `info` and its output. Otherwise `found` fields and `end`.
///
/// Only a `grub-mkconfig` that reads the folder of snippets counts: that is a Debian patch.
const SNIPPET: &str = r#"need grep
forge_cmdline() {
IFS= read -r l </proc/cmdline || [ -n "$l" ] || exit 2
printf 'loaded\0%s\0' "$l"
forge_container
m=$(command -v grub-mkconfig)
if [ -e /boot/grub/grub.cfg ] && [ -e /etc/default/grub ] && command -v update-grub >/dev/null && [ -n "$m" ] &&
grep -q 'default/grub\.d' "$m"; then
printf 'loader\0update-grub\0'
set -- /etc/default/grub
for f in /etc/default/grub.d/*.cfg; do [ ! -f "$f" ] || set -- "$@" "$f"; done
grep -aHnZ GRUB_CMDLINE_LINUX -- "$@" || [ "$?" = 1 ] || exit 2
printf 'end\0'
l=$(grep -aE '^(### BEGIN |[[:space:]]*(menuentry|linux|linux16|linuxefi)[[:space:]])' /boot/grub/grub.cfg) || [ "$?" = 1 ] || exit 2
printf 'menu\0%s\0' "$l"
elif command -v grubby >/dev/null; then
l=$(grubby --info=ALL) || exit 2
printf 'loader\0grubby\0info\0%s\0' "$l"
else
printf 'loader\0other\0'
for f in /boot/loader/loader.conf /boot/efi/loader/loader.conf /efi/loader/loader.conf /etc/kernel/cmdline \
/etc/default/grub /boot/grub/grub.cfg /boot/grub2/grub.cfg /boot/extlinux/extlinux.conf /boot/firmware/cmdline.txt; do
[ ! -e "$f" ] || printf 'found\0%s\0' "$f"
done
printf 'end\0'
fi
}
forge_cmdline"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("reading the boot loader's configuration", probes, read_answers);
    section.body = section.body.code(CONTAINER_SNIPPET).code(SNIPPET);
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = if raw.is_complete(&[0]) { parse_state(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer = seen.clone().map(|state| ProbeReading::Cmdline(Box::new(state)));
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

/// Parses the whole output; `None` if it is incomplete.
fn parse_state(stdout: &[u8]) -> Option<CmdlineState> {
    let mut fields = NulFields::new(stdout);
    let [b"loaded", loaded, b"container", container, b"loader", loader] = fields.next_row()? else { return None };
    let loader = match loader {
        b"update-grub" => parse_update_grub(&mut fields)?,
        b"grubby" => {
            let [b"info", info] = fields.next_row()? else { return None };
            BootLoader::Grubby { entries: parse_grubby(parse_utf8(info)?) }
        }
        _ => parse_other_loader(&mut fields)?,
    };
    Some(CmdlineState {
        loaded: UntrustedText::from_bytes(loaded),
        container: parse_utf8(container)?.to_owned(),
        loader,
    })
}

fn parse_update_grub(fields: &mut NulFields<'_>) -> Option<BootLoader> {
    let mut lines = Vec::new();
    while let Some(line) = confd::read_conf_line(fields)? {
        lines.push(line);
    }
    let [b"menu", menu] = fields.next_row()? else { return None };
    Some(BootLoader::UpdateGrub { lines, entries: parse_menu_entries(&String::from_utf8_lossy(menu)) })
}

fn parse_other_loader(fields: &mut NulFields<'_>) -> Option<BootLoader> {
    let mut found = Vec::new();
    loop {
        match fields.next()? {
            b"found" => found.push(parse_utf8(fields.next()?)?.to_owned()),
            b"end" => return Some(BootLoader::Other { found }),
            _ => return None,
        }
    }
}

/// Parses the entries that GRUB's own script for Linux wrote: entries of other systems and hand-written ones are not
/// generated from the settings.
fn parse_menu_entries(menu: &str) -> Vec<BootEntry> {
    let mut entries = Vec::new();
    let (mut own, mut title, mut rescue) = (false, String::new(), false);
    for line in menu.lines() {
        let line = line.trim_start();
        if let Some(script) = line.strip_prefix("### BEGIN ") {
            own = script.contains("_linux");
        } else if let Some(rest) = line.strip_prefix("menuentry") {
            title = rest.split('\'').nth(1).unwrap_or_else(|| rest.trim()).to_owned();
            rescue = rest.contains("-recovery-");
        } else if let Some((_, args)) = own.then(|| split_kernel_line(line)).flatten() {
            entries.push(BootEntry { title: title.as_str().into(), args: args.into(), rescue });
        }
    }
    entries
}

/// Splits `linux /boot/vmlinuz-… root=… ro quiet` into kernel and arguments.
fn split_kernel_line(line: &str) -> Option<(&str, &str)> {
    let (command, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim();
    command.starts_with("linux").then(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")))
}

/// Parses the output of `grubby --info=ALL`: `KEY=VALUE` lines; `index` begins an entry. An entry without a kernel
/// belongs to another system.
fn parse_grubby(info: &str) -> Vec<BootEntry> {
    let mut entries: Vec<(bool, BootEntry)> = Vec::new();
    for (key, value) in info.lines().filter_map(|line| line.trim().split_once('=')) {
        if key == "index" {
            entries.push((false, BootEntry::default()));
        }
        let Some((linux, entry)) = entries.last_mut() else { continue };
        let value = strip_quotes(value);
        match key {
            "kernel" => (*linux, entry.rescue) = (true, value.contains("-rescue")),
            "args" => entry.args = value.into(),
            "title" => entry.title = value.into(),
            _ => {}
        }
    }
    entries.into_iter().filter(|(linux, _)| *linux).map(|(_, entry)| entry).collect()
}

/// Removes the quotes, which older versions do not write.
fn strip_quotes(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    fn ask(raw: &SectionOutput) -> Result<CmdlineState, String> {
        let seen = answers(&build_section(vec![Probe::Cmdline]).expect("a section"), raw);
        match seen.get(&Probe::Cmdline) {
            Ok(ProbeReading::Cmdline(state)) => Ok(*state.clone()),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        }
    }

    fn shown(entries: &[BootEntry]) -> Vec<String> {
        let one = |e: &BootEntry| format!("{}{}: {}", if e.rescue { "!" } else { "" }, e.title.raw(), e.args.raw());
        entries.iter().map(one).collect()
    }

    /// Runs the snippet with files of a temporary directory in place of the host's.
    fn detect_container(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut snippet = format!("{CONTAINER_SNIPPET}forge_container");
        for (number, path) in
            ["/run/systemd/container", "/.dockerenv", "/proc/2/comm", "/proc/self/mountinfo"].iter().enumerate()
        {
            let own = folder.path().join(number.to_string());
            if let Some((_, text)) = files.iter().find(|(name, _)| name == path) {
                fs_err::write(&own, text).unwrap();
            }
            snippet = snippet.replace(path, own.to_str().unwrap());
        }
        let out = std::process::Command::new("sh").args(["-u", "-c", &snippet]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().split('\0').nth(1).unwrap().to_owned()
    }

    #[test]
    fn files_of_a_container_image_do_not_make_a_machine_a_container() {
        // origin: field, a virtual machine whose disk was made from an image of Ubuntu 24.04 for containers
        let disk =
            ("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n");
        let kernel = ("/proc/2/comm", "kthreadd\n");
        let image = ("/run/systemd/container", "docker\n");
        assert_eq!(detect_container(&[image, ("/.dockerenv", ""), kernel, disk]), "");
        assert_eq!(detect_container(&[("/.dockerenv", ""), kernel, disk]), "");
        assert_eq!(detect_container(&[disk, kernel]), "");
        // In a container: other processes, or those of the machine with a root of its own.
        assert_eq!(detect_container(&[("/.dockerenv", ""), disk]), "docker");
        assert_eq!(detect_container(&[image, ("/proc/2/comm", "sh\n"), disk]), "docker");
        let overlay = ("/proc/self/mountinfo", "27 1 0:50 / / rw - overlay overlay rw,lowerdir=l\n");
        assert_eq!(detect_container(&[image, kernel, overlay]), "docker");
        let subvolume = ("/proc/self/mountinfo", "27 1 0:50 /docker/5 / rw - btrfs /dev/sda rw\n");
        assert_eq!(detect_container(&[image, kernel, subvolume]), "docker");
        assert_eq!(detect_container(&[("/run/systemd/container", "systemd-nspawn\n"), kernel, disk]), "systemd-nspawn");
    }

    #[test]
    fn debian_grub_menu_is_parsed() {
        let state = ask(&recorded(include_str!("../../tests/fixtures/probe/cmdline-debian.txt"))).unwrap();
        let BootLoader::UpdateGrub { lines, entries } = &state.loader else { panic!("{state:?}") };
        let places: Vec<String> =
            lines.iter().map(|line| format!("{} {}", line.format_location(), line.text)).collect();
        insta::assert_snapshot!(format!("{}\n{}", places.join("\n"), shown(entries).join("\n")));
    }

    #[test]
    fn grubby_entries_are_parsed() {
        let state = ask(&recorded(include_str!("../../tests/fixtures/probe/cmdline-rhel.txt"))).unwrap();
        let BootLoader::Grubby { entries } = &state.loader else { panic!("{state:?}") };
        insta::assert_snapshot!(shown(entries).join("\n"));
    }

    #[test]
    fn other_boot_loader_is_detected_by_its_files() {
        let text = "loaded\0ro\0container\0docker\0loader\0other\0found\0/etc/kernel/cmdline\0end\0";
        let state = ask(&printed(text)).unwrap();
        assert_eq!(state.loader, BootLoader::Other { found: vec!["/etc/kernel/cmdline".into()] });
        assert_eq!(state.container, "docker");
        for cut in [4, 20, text.len() - 2] {
            assert!(ask(&printed(&text[..cut])).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn truncated_menu_is_unknown() {
        let whole =
            "loaded\0ro\0container\0\0loader\0update-grub\0/etc/default/grub\x001:GRUB_CMDLINE_LINUX=\nend\0menu\0x\0";
        assert!(ask(&printed(whole)).is_ok());
        assert_eq!(
            ask(&printed(&whole[..whole.len() - 3])),
            Err("reading the boot loader's configuration returned no answer".into())
        );
    }

    #[test]
    fn entries_of_other_systems_are_left_out() {
        let menu = "### BEGIN /etc/grub.d/10_linux ###\nmenuentry 'A' {\n\tlinux\t/vmlinuz ro quiet\n\
                    ### BEGIN /etc/grub.d/30_os-prober ###\nmenuentry 'B' {\n\tlinux\t/vmlinuz ro\n";
        assert_eq!(shown(&parse_menu_entries(menu)), ["A: ro quiet"]);
        let info = "index=0\nkernel=/vmlinuz\nargs=\"ro\"\nindex=1\nnon linux entry\n";
        assert_eq!(shown(&parse_grubby(info)), [": ro"]);
    }
}
