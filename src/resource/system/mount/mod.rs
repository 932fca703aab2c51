//! `mount`: an entry of fstab and the current mount, compared separately.

mod action_script;
mod assessment;
mod declaration;
mod fstab;
mod mount_diff;
mod options;

use self::declaration::{DesiredMountState, MountResource};
use self::fstab::FSTAB;
use self::mount_diff::{CurrentMountDiff, MaskedUnitDiff, MountDiff};
use crate::diag::Diag;
use crate::model::{BootUndo, UndoDeclaration, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::composite::PartAssessments;
use crate::resource::shared::support::{bad_value, format_mode, mount_state, reject_secrets, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, ChangedPart, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "mount",
    summary: "A file system: its entry in fstab, and whether it is mounted now.",
    example: include_str!("../../examples/mount.yaml"),
    doc: "\
**Compared**, each separately:

- **fstab**: the entry for `path`, field by field. Whitespace, the order of options and `defaults` make no difference.
  If there are several entries for one mount point, the reason lists them and a change replaces them with the declared
  one.
- **mounted**: source, type and options in the kernel's mount table. `UUID=`, `LABEL=` and links below `/dev` are
  resolved to their device. Options that the kernel adds (`relatime`, `seclabel`, sizes that it chose) are not
  differences; undeclared restrictions (`ro`, `noexec`, `nosuid`, `nodev`) are, except those that a bind mount takes
  over from the mount of its source. Sizes are compared in bytes, modes as octal numbers. Options that the kernel does
  not show cannot be compared; a no-op lists them. A share of the memory (`size=50%`) is compared with the entry in
  fstab. A mount that a later mount of a directory above it hides is not there.
- **unit**: whether the unit that systemd makes of the entry is masked, unless the options contain `noauto`. systemd does
  not mount a masked unit at boot. A change unmasks it.

An unchanged step reports `the entry in fstab matches; mounted`.

**forge never accesses the mount point itself**: it reads the kernel's mount table, fstab and `/dev`, so that a file
system whose server is down does not block the observation. Owner and mode of the mounted directory are therefore not
compared; `mode` applies to a mount point that forge creates.

**A change** creates the mount point, mounts, and only then writes fstab, so that fstab never gets an entry that does
not work. forge edits fstab line by line, renames the new file into place and reloads systemd. Changed options are
applied with `mount -o remount`, D1.

**Blocked**:

- users other than root can replace the mount point, a directory above it, or a `source` that is a path: `mount` and
  `umount` work by name, so a user who replaces a name with a link controls what is mounted where;
- `/etc/systemd/system` has a unit for the mount point, or a drop-in of that unit: it precedes fstab at boot;
- the path of the mount point leads through a symbolic link: the kernel's table has the path without it;
- a directory above the mount point does not exist, the mount point is not a directory, or a `source` that is a path does
  not exist, and no earlier step provides it;
- nothing is mounted yet at `/dev`, `/proc`, `/run`, `/sys`, `/usr`, `/var` or `/var/lib`: a mount would hide the files
  of the running host (`/etc`, `/bin`, `/lib`, `/sbin` and the like are an error of the declaration);
- something else is mounted there, for example another directory of the same file system; the reason names it;
- an option differs that a remount does not change: those of NFS (`vers=`), and `mode`, `uid` and `gid` of tmpfs;
- a disk is mounted read-only without a declared `ro`, which is how the kernel reacts to a failing disk;
- **busy**, for an unmount: processes use it, or other file systems are mounted below it. The reason lists them; forge
  never kills a process.

**Removal** unmounts and removes the entry. The mount point stays. `state: unmounted` keeps the entry; add `noauto` to
the options to keep it unmounted at boot. `state: fstab` does not compare the current mount.",
    fields: &[
        FieldSpec::required("path", FieldType::Path, "The mount point."),
        FieldSpec::required(
            "source",
            FieldType::Line,
            "A device, `UUID=…`, `LABEL=…`, `PARTUUID=…`, `server:/export`, a directory to bind, or `tmpfs`.",
        ),
        FieldSpec::required(
            "fstype",
            FieldType::Line,
            "File system type; `none` with the option `bind`, `auto` for any type.",
        ),
        FieldSpec::optional(
            "options",
            FieldType::List(&FieldType::Line),
            "Mount options, one per entry. Default `defaults`.",
        ),
        FieldSpec::optional("dump", FieldType::Int { min: 0, max: 2 }, "Fifth field of the entry. Default `0`."),
        FieldSpec::optional(
            "pass",
            FieldType::Int { min: 0, max: 2 },
            "Sixth field: the order of checks at boot. Default `0`.",
        ),
        FieldSpec::optional(
            "state",
            FieldType::Enum(&["mounted", "fstab", "unmounted"]),
            "Desired state. Default `mounted`.",
        ),
        FieldSpec::optional(
            "mode",
            FieldType::Mode,
            "Permission bits of a mount point that forge creates. Default `\"0755\"`.",
        ),
    ],
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::DEFAULT },
};

/// Directories that are never a file system of their own, because a host cannot boot or log in without their files.
const SYSTEM_DIRECTORIES: &[&str] =
    &["/bin", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin"];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secrets(
        KIND.name,
        fields,
        "write it with a `file` step of mode 0600, and name that file in `options`, such as `credentials=FILE` of cifs",
    )?;
    let path = required_text(fields, "path")?;
    let text =
        |name: &str| if absent { Ok(fields.get_text(name).unwrap_or_default()) } else { required_text(fields, name) };
    let state = match fields.get_text("state") {
        _ if absent => DesiredMountState::Unmounted,
        Some("fstab") => DesiredMountState::Fstab,
        Some("unmounted") => DesiredMountState::Unmounted,
        _ => DesiredMountState::Mounted,
    };
    if path == "/" && state == DesiredMountState::Unmounted {
        return Err(bad_value("`/` cannot be unmounted").with_field("path"));
    }
    if SYSTEM_DIRECTORIES.contains(&path) && state != DesiredMountState::Unmounted {
        return Err(bad_value(format!(
            "`{path}` is a system directory: a mount would hide the files that the host needs"
        ))
        .with_field("path"));
    }
    let mount = MountResource {
        path: path.to_owned(),
        source: parse_source(text("source")?, absent)?,
        fstype: check_word("fstype", text("fstype")?, absent)?,
        options: fields.get_text_list("options").unwrap_or_default(),
        dump: fields.get_int("dump").unwrap_or(0),
        pass: fields.get_int("pass").unwrap_or(0),
        state,
        mode: fields.get_mode("mode").unwrap_or(0o755),
        absent,
    };
    mount.options.iter().try_for_each(|option| check_option(option))?;
    // `//` begins a server's share. The source of a bind mount is a path on the host and is checked as one.
    if mount.is_bind() && (!mount.source.starts_with('/') || mount.source.starts_with("//")) {
        return Err(bad_value(format!("`{}` is not a directory for a bind mount", mount.source)).with_field("source"));
    }
    Ok(Box::new(mount))
}

fn parse_source(text: &str, absent: bool) -> Result<String, Diag> {
    match text.trim().is_empty() && !absent || text.contains(char::is_control) {
        true => Err(bad_value("`source` is empty or not a valid source").with_field("source")),
        false => Ok(text.trim().to_owned()),
    }
}

fn check_word(name: &'static str, text: &str, absent: bool) -> Result<String, Diag> {
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    match good && (absent || !text.is_empty()) {
        true => Ok(text.to_owned()),
        false => Err(bad_value(format!("`{text}` is not a valid `{name}`")).with_field(name)),
    }
}

fn check_option(option: &str) -> Result<(), Diag> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == ',' || c == '#';
    match option.is_empty() || option.contains(bad) {
        true => Err(bad_value(format!("`{option}` is not a single option"))
            .with_field("options")
            .hint("write options as a list: `[noatime, nofail]`")),
        false => Ok(()),
    }
}

impl DeclaredResource for MountResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.path.clone()
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        match mark.part {
            ChangedPart::FstabEntry => ChangedObject::Path(FSTAB.to_owned()),
            ChangedPart::MountUnit => ChangedObject::Unit(self.unit_name()),
            _ => ChangedObject::Mount(self.path.clone()),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        if self.state == DesiredMountState::Unmounted {
            probes.push(self.holders_probe());
        }
        probes.extend(self.unit_probe());
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.path, "absent": true }),
            false => json!({
                "path": self.path, "entry": fstab::fstab_line(self), "mode": format_mode(self.mode),
                "state": match self.state { DesiredMountState::Mounted => "mounted", DesiredMountState::Fstab => "fstab", DesiredMountState::Unmounted => "unmounted" },
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (self.state == DesiredMountState::Mounted).then(|| ProvidedItem::Path(self.path.clone())).into_iter().collect()
    }
}

impl TypedResource for MountResource {
    type Diff = MountDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<MountDiff> {
        let state = match mount_state(seen, &self.probe()) {
            Ok(state) => state,
            Err(unknown) if unknown.barred => {
                return Assessment::unknown(&unknown).host_hint(action_script::UNSAFE_MOUNT_HINT);
            }
            Err(unknown) => return Assessment::unknown(&unknown),
        };
        if let Some(real) = &state.real_path {
            return assessment::block_linked_path(self, real);
        }
        let mut entry = if self.absent { fstab::assess_fstab_absent(state) } else { fstab::assess_fstab(self, state) };
        let mut current = assessment::assess_current(self, state, seen, cx);
        let mut mask = assessment::assess_unit(self, seen, cx);
        let diff = MountDiff {
            fstab: entry.diff.take(),
            current: current.as_mut().and_then(|current| current.diff.take()),
            unit: mask.as_mut().and_then(|mask| mask.diff.take()),
        };
        let mut parts = PartAssessments::default().with_part("fstab", entry);
        if let Some(current) = current {
            parts = parts.with_part("mounted", current);
        }
        if let Some(mask) = mask {
            parts = parts.with_part("unit", mask);
        }
        parts.combine_with(Some(diff))
    }

    fn act(&self, diff: &MountDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript {
            body: action_script::render_script(self, diff, cx),
            long: false,
            explain: action_script::EXPLAIN,
        })
    }

    /// A mount that hangs a boot is in `/etc/fstab`.
    fn undo(&self, diff: &MountDiff) -> UndoEffect {
        let table = diff.fstab.as_ref().map(|_| FSTAB.to_owned());
        self.undo_mount(diff).with_boot(BootUndo { paths: table.into_iter().collect(), ..BootUndo::default() })
    }
}

impl MountResource {
    /// Returns the declaration of the same entry without the mount.
    fn unmounted_fields(&self) -> Value {
        json!({
            "path": self.path, "source": self.source, "fstype": self.fstype, "options": self.options,
            "dump": self.dump, "pass": self.pass, "state": "unmounted",
        })
    }

    fn undo_mount(&self, diff: &MountDiff) -> UndoEffect {
        let fields = json!({ "path": self.path, "source": self.source, "fstype": self.fstype });
        let is_new = diff.fstab.as_ref().is_none_or(|fstab| fstab.old.is_empty());
        if let Some(MaskedUnitDiff { unit }) = &diff.unit {
            return UndoEffect::irreversible(&format!("`{unit}` was masked, which a step cannot declare"));
        }
        match &diff.current {
            // The removal of a mount also removes its entry.
            Some(CurrentMountDiff::Mount { .. }) if diff.fstab.is_none() => {
                UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, self.unmounted_fields())])
            }
            Some(CurrentMountDiff::Mount { .. }) if is_new => {
                UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, fields)])
            }
            Some(CurrentMountDiff::Mount { .. }) => {
                UndoEffect::irreversible("an undo cannot put back a single entry of `/etc/fstab`")
            }
            Some(CurrentMountDiff::Remount { .. } | CurrentMountDiff::Unmount { .. }) => {
                UndoEffect::irreversible("the options of the current mount are not kept")
            }
            // Only its own entry: other steps change other lines of the file.
            // What was mounted before stays mounted.
            None if is_new => {
                let entry = diff.fstab.as_ref().and_then(|fstab| fstab.new.as_ref());
                let removal = entry.map(|entry| {
                    let fields = json!({ "path": FSTAB, "line": entry });
                    UndoDeclaration::absent(crate::resource::files::line::KIND.name, fields)
                });
                UndoEffect::declare(removal.into_iter().collect())
            }
            None => UndoEffect::restore_paths([FSTAB]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)], absent: bool) -> String {
        let usual = [("path", json!("/a")), ("source", json!("tmpfs")), ("fstype", json!("tmpfs"))];
        build(&FieldValues(usual.into_iter().chain(fields.iter().cloned()).collect()), absent).unwrap_err().message
    }

    #[test]
    fn invalid_mount_fields_are_rejected() {
        assert_eq!(build_error(&[("path", json!("/"))], true), "`/` cannot be unmounted");
        let why = "`/etc` is a system directory: a mount would hide the files that the host needs";
        assert_eq!(build_error(&[("path", json!("/etc"))], false), why);
        let several = json!(["noatime,nofail"]);
        assert_eq!(build_error(&[("options", several)], false), "`noatime,nofail` is not a single option");
        assert_eq!(build_error(&[("source", json!(""))], false), "`source` is empty or not a valid source");
        assert_eq!(build_error(&[("fstype", json!("ext 4"))], false), "`ext 4` is not a valid `fstype`");
        assert_eq!(build_error(&[("options", json!(["bind"]))], false), "`tmpfs` is not a directory for a bind mount");
        assert_eq!(
            build_error(&[("options", json!(["bind"])), ("source", json!("//srv/data"))], false),
            "`//srv/data` is not a directory for a bind mount"
        );
    }
}
