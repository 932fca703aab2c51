//! Kernel modules: the loaded ones with their parameters, and all lines of `modprobe.d` and `modules-load.d`.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{ConfLine, ModulePresence, ModuleState, Observation, ProbeReading, confd};
use crate::model::UntrustedText;
use std::collections::BTreeMap;

/// Prints the snippets of both folders, then fields: `cmdline` and the kernel's command line; `loadable` and whether
/// this kernel supports modules; `files` and the lines of the indexes that list one, with all aliases that are patterns
/// of names (those of devices contain a colon); `indexed` if the running kernel has
/// such an index; `masked` if systemd does not read `modules-load.d` at boot; for each module `module`, its name, its
/// state, its reference count, then `holder` and `param` fields.
///
/// Containers may have no `/sys/module`. A kernel that has loaded a module supports modules, even if its list is
/// hidden. A loaded module has `initstate`; a folder without it belongs to a built-in one. An unreadable parameter has
/// no value here.
const SNIPPET: &str = r#"
forge_modules() {
IFS= read -r l </proc/cmdline || [ -n "$l" ] || exit 2
printf 'cmdline\0%s\0' "$l"
l=no; for m in /proc/modules /sys/module/*/initstate; do [ ! -e "$m" ] || l=yes; done
printf 'loadable\0%s\0' "$l"
k=$(uname -r) e=
for m; do e="$e|$(printf %s "$m" | sed 's/_/[_-]/g')"; done
set -- "$@"
l=$(cd "/lib/modules/$k" 2>/dev/null && grep -HoE "^([^:]*/(${e#?})\.ko|alias (${e#?}|[^ :]*[]*?[][^ :]*) )" modules.dep modules.builtin modules.alias 2>/dev/null)
printf 'files\0%s\0' "$l"
[ ! -f "/lib/modules/$k/modules.dep" ] || printf 'indexed\0'
[ ! /etc/systemd/system/systemd-modules-load.service -ef /dev/null ] || printf 'masked\0'
for m; do
d=/sys/module/$m s=none r=
[ -d /sys/module ] || s=hidden
if [ -f "$d/initstate" ]; then IFS= read -r s <"$d/initstate"; elif [ -d "$d" ]; then s=builtin; fi
[ ! -f "$d/refcnt" ] || IFS= read -r r <"$d/refcnt"
printf 'module\0%s\0%s\0%s\0' "$m" "$s" "$r"
for h in "$d"/holders/*; do [ ! -e "$h" ] || printf 'holder\0%s\0' "${h##*/}"; done
for p in "$d"/parameters/*; do
[ -f "$p" ] || continue
if { IFS= read -r v <"$p"; } 2>/dev/null; then printf 'param\0%s\0%s\0' "${p##*/}" "$v"; fi
done
done
}
need uname; need sed
forge_confd /etc/modprobe.d /run/modprobe.d /usr/local/lib/modprobe.d /usr/lib/modprobe.d /lib/modprobe.d
forge_confd /etc/modules-load.d /run/modules-load.d /usr/local/lib/modules-load.d /usr/lib/modules-load.d /lib/modules-load.d
forge_modules"#;

/// Reports whether `name` can be a module's name, with underscores.
pub(crate) fn is_module_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 56 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("reading `/sys/module` and `modprobe.d`", probes, read_answers);
    let body = section.body.code(confd::SNIPPET).code(SNIPPET);
    section.body = section.probes.iter().filter_map(probe_module).fold(body, |body, name| body.word(name));
    (!section.probes.is_empty()).then_some(section)
}

fn probe_module(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Module { name } => Some(name),
        _ => None,
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = if raw.is_complete(&[0]) { parse_modules(&raw.stdout) } else { None };
    for probe in &section.probes {
        let state = seen.as_ref().zip(probe_module(probe)).and_then(|(seen, name)| seen.get(name));
        let answer = state
            .map(|state| ProbeReading::Module(Box::new(state.clone())))
            .ok_or_else(|| raw.explain_missing(section));
        out.insert(probe.clone(), answer);
    }
}

/// Data that applies to all modules of a host.
struct HostModules<'a> {
    modprobe: Vec<ConfLine>,
    modules_load: Vec<ConfLine>,
    cmdline: UntrustedText,
    loadable: bool,
    files: &'a str,
    is_indexed: bool,
    is_load_masked: bool,
}

fn parse_modules(stdout: &[u8]) -> Option<BTreeMap<&str, ModuleState>> {
    let mut fields = NulFields::new(stdout);
    let modprobe = join_continued_lines(confd::read_conf_lines(&mut fields)?);
    let modules_load = confd::read_conf_lines(&mut fields)?;
    let [b"cmdline", cmdline, b"loadable", loadable, b"files", files] = fields.next_row()? else { return None };
    let mut common = HostModules {
        modprobe,
        modules_load,
        cmdline: UntrustedText::from_bytes(cmdline),
        loadable: loadable == b"yes",
        files: parse_utf8(files)?,
        is_indexed: false,
        is_load_masked: false,
    };
    let mut modules: BTreeMap<&str, ModuleState> = BTreeMap::new();
    let mut current = None;
    while let Some(tag) = fields.next() {
        match tag {
            b"indexed" => common.is_indexed = true,
            b"masked" => common.is_load_masked = true,
            b"module" => {
                let [name, state, count] = fields.next_row()?;
                let name = parse_utf8(name)?;
                modules.insert(name, common.build_module_state(name, parse_utf8(state)?, parse_utf8(count)?));
                current = Some(name);
            }
            b"holder" => modules.get_mut(current?)?.holders.push(parse_utf8(fields.next()?)?.to_owned()),
            b"param" => {
                let [param, value] = fields.next_row()?;
                let value = UntrustedText::from_bytes(value);
                modules.get_mut(current?)?.parameters.insert(parse_utf8(param)?.to_owned(), value);
            }
            _ => return None,
        }
    }
    Some(modules)
}

impl HostModules<'_> {
    /// Reports whether the index has the name as an alias of modules.
    fn is_alias(&self, name: &str) -> bool {
        let mut aliases = self.files.lines().filter_map(|line| line.strip_prefix("modules.alias:alias "));
        aliases.any(|alias| is_alias_match(alias.trim_end(), name))
    }

    fn build_module_state(&self, name: &str, state: &str, count: &str) -> ModuleState {
        let lists = |index: &str| {
            let mut paths = self.files.lines().filter_map(|line| line.strip_prefix(index)?.strip_prefix(':'));
            paths.any(|path| module_name_from_path(path) == name)
        };
        let presence = match state {
            "none" | "hidden" if lists("modules.builtin") => ModulePresence::Builtin,
            "hidden" => ModulePresence::Hidden,
            "none" => ModulePresence::NotLoaded,
            "builtin" => ModulePresence::Builtin,
            "live" => ModulePresence::Loaded,
            _ => ModulePresence::Changing,
        };
        let is_absent = matches!(presence, ModulePresence::NotLoaded | ModulePresence::Hidden);
        let available = lists("modules.dep");
        ModuleState {
            presence,
            available,
            is_missing: self.is_indexed && is_absent && !available && !self.is_alias(name),
            loadable: self.loadable,
            // A kernel that cannot unload modules has no reference counts.
            refcount: count.parse().ok(),
            holders: Vec::new(),
            parameters: BTreeMap::new(),
            modprobe: self.modprobe.clone(),
            modules_load: self.modules_load.clone(),
            is_load_masked: self.is_load_masked,
            cmdline: self.cmdline.clone(),
        }
    }
}

/// Reports whether `modprobe NAME` takes the module of an alias, whose name may be a pattern.
///
/// Source: `alias_normalize` of libkmod and fnmatch(3): a dash is an underscore, except between brackets.
pub(crate) fn is_alias_match(alias: &str, name: &str) -> bool {
    let mut is_in_brackets = false;
    let normalize = |c: char| {
        is_in_brackets = c == '[' || is_in_brackets && c != ']';
        if c == '-' && !is_in_brackets { '_' } else { c }
    };
    let pattern: String = alias.chars().map(normalize).collect();
    let name = name.replace('-', "_");
    pattern == name || globset::Glob::new(&pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// Returns the name of the module in a file: `kernel/drivers/net/dummy-x.ko` is `dummy_x`.
fn module_name_from_path(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().trim_end_matches(".ko").replace('-', "_")
}

/// Joins each line that ends with a backslash with the next one of its file.
fn join_continued_lines(lines: Vec<ConfLine>) -> Vec<ConfLine> {
    let mut out: Vec<ConfLine> = Vec::new();
    for line in lines {
        match out.last_mut() {
            Some(last) if last.file == line.file && last.text.ends_with('\\') => {
                last.text.pop();
                last.text.push(' ');
                last.text.push_str(&line.text);
            }
            _ => out.push(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    fn ask(name: &str, raw: &SectionOutput) -> Result<ModuleState, String> {
        let probe = Probe::Module { name: name.to_owned() };
        let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), raw);
        match seen.get(&probe) {
            Ok(ProbeReading::Module(state)) => Ok(ModuleState::clone(state)),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        }
    }

    #[test]
    fn module_is_parsed_with_holders_and_parameters() {
        let raw = recorded(include_str!("../../tests/fixtures/probe/module.txt"));
        let core = ask("nvme_core", &raw).unwrap();
        assert_eq!((core.presence, core.refcount, core.available), (ModulePresence::Loaded, Some(5), true));
        assert_eq!(core.holders, ["nvme"]);
        assert_eq!(core.parameters["multipath"].raw(), "Y");
        assert!(!core.parameters.contains_key("hidden"));
        let texts: Vec<&str> = core.modprobe.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["blacklist nouveau", "options nvme_core  multipath=Y"]);
        assert_eq!(core.modules_load[0].text, "nvme-core");
        assert_eq!(ask("ext4", &raw).unwrap().presence, ModulePresence::Builtin);
        let dummy = ask("dummy", &raw).unwrap();
        assert_eq!((dummy.presence, dummy.available), (ModulePresence::NotLoaded, true));
        let nouveau = ask("nouveau", &raw).unwrap();
        assert_eq!((nouveau.available, nouveau.is_missing), (false, false), "no index was seen");
    }

    #[test]
    fn module_that_no_index_lists_is_missing() {
        let head = "lines\0end\0lines\0end\0cmdline\0ro\0loadable\0yes\0files\0modules.dep:kernel/net/dummy.ko\n\
            modules.builtin:kernel/fs/ext4/ext4.ko\nmodules.alias:alias ip-conntrack \n\
            modules.alias:alias tun-[0-9]* \0";
        let is_missing = |indexed: &str, name: &str, state: &str| {
            ask(name, &printed(format!("{head}{indexed}module\0{name}\0{state}\0\0"))).unwrap().is_missing
        };
        assert!(is_missing("indexed\0", "ib_umadd", "none"));
        assert!(is_missing("indexed\0", "ib_umadd", "hidden") && is_missing("indexed\0", "tun_a", "none"));
        for (name, state) in
            [("dummy", "none"), ("ext4", "none"), ("ip_conntrack", "none"), ("own_build", "live"), ("tun_10", "none")]
        {
            assert!(!is_missing("indexed\0", name, state), "{name}");
        }
        assert!(!is_missing("", "ib_umadd", "none"), "a container without the modules of its kernel");
    }

    #[test]
    fn kernel_without_module_support_is_detected() {
        let raw = recorded(include_str!("../../tests/fixtures/probe/module-none.txt"));
        let module = ask("loop", &raw).unwrap();
        assert_eq!((module.presence, module.loadable), (ModulePresence::Builtin, false));
    }

    #[test]
    fn truncated_answer_is_unknown() {
        let whole = "lines\0end\0lines\0end\0cmdline\0ro\0loadable\0yes\0files\0\0module\0dummy\0none\0\0";
        assert!(ask("dummy", &printed(whole)).is_ok());
        assert!(ask("dummy", &printed(&whole[..40])).is_err());
        assert_eq!(
            ask("other", &printed(whole)),
            Err("reading `/sys/module` and `modprobe.d` returned no answer".into())
        );
    }
}
