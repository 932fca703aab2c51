//! Lines of other files, and of the kernel command line, that deny a module or replace how `modprobe` loads it.

use super::config::is_same_name;
use crate::probe::{ConfLine, ModulePresence, ModuleState, is_alias_match};

/// A rule about loading one module that the step itself did not write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoadRule {
    /// `file:line`, or the kernel command line.
    pub place: String,
    /// The file; empty for the command line.
    pub file: String,
    pub kind: LoadRuleKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum LoadRuleKind {
    /// `blacklist`: neither hardware nor systemd loads it at boot; `modprobe NAME` still does.
    Denylisted,
    /// `module_blacklist=`: the kernel refuses to load it.
    KernelRefuses,
    /// `alias`: `modprobe` and systemd load the other module in its place; `off` is the usual name for none.
    OtherModule {
        /// The module that is loaded.
        module: String,
        /// Whether the kernel also has a module of the name, which is not loaded. Otherwise the name is only an alias.
        hides: bool,
    },
    /// `install`: `modprobe` and systemd run this command instead of loading the module.
    InstallCommand(String),
}

impl LoadRule {
    /// Returns whether the rule keeps systemd from loading the module at boot.
    pub fn denies_boot(&self) -> bool {
        match &self.kind {
            LoadRuleKind::Denylisted | LoadRuleKind::KernelRefuses => true,
            LoadRuleKind::OtherModule { hides, .. } => *hides,
            LoadRuleKind::InstallCommand(command) => does_nothing(command),
        }
    }

    /// Returns whether the rule keeps `modprobe NAME` from loading the module.
    pub fn denies_modprobe(&self) -> bool {
        self.kind != LoadRuleKind::Denylisted && self.denies_boot()
    }
}

/// Returns every such rule for `name` outside `own`, the step's file, in the order in which kmod reads them. Only the
/// first `install` line of a module takes effect, so later ones are not returned.
///
/// Source: modprobe.d(5), kernel-parameters.txt, and libkmod: `kmod_module_get_install_commands` returns the first match,
/// and `kmod_module_new_from_lookup` takes all modules that an alias of a file has for a name before the module itself.
pub(super) fn list_load_rules(state: &ModuleState, name: &str, own: &str) -> Vec<LoadRule> {
    let mut rules = Vec::new();
    let mut has_install = false;
    let aliases = list_aliases(state, name);
    let is_own_alias = aliases.iter().any(|(_, target)| is_same_name(target, name));
    let is_module = state.available || state.presence != ModulePresence::NotLoaded;
    for (line, target) in aliases.into_iter().filter(|(line, _)| !is_own_alias && line.file != own) {
        let kind = LoadRuleKind::OtherModule { module: target.to_owned(), hides: target == "off" || is_module };
        rules.push(LoadRule { place: line.format_location(), file: line.file.clone(), kind });
    }
    for line in &state.modprobe {
        let Some((keyword, rest)) = line.text.trim().split_once(|c: char| c.is_ascii_whitespace()) else { continue };
        let (module, command) = rest.trim().split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((rest.trim(), ""));
        if !is_same_name(module, name) {
            continue;
        }
        let kind = match keyword {
            "blacklist" => LoadRuleKind::Denylisted,
            "install" if !has_install => LoadRuleKind::InstallCommand(command.trim().to_owned()),
            _ => continue,
        };
        has_install |= keyword == "install";
        if line.file != own {
            rules.push(LoadRule { place: line.format_location(), file: line.file.clone(), kind });
        }
    }
    for word in state.cmdline.raw().split_ascii_whitespace() {
        let (key, modules) = word.split_once('=').unwrap_or((word, ""));
        let kind = match key {
            "modprobe.blacklist" => LoadRuleKind::Denylisted,
            "module_blacklist" => LoadRuleKind::KernelRefuses,
            _ => continue,
        };
        if modules.split(',').any(|module| is_same_name(module, name)) {
            rules.push(LoadRule { place: "the kernel command line".to_owned(), file: String::new(), kind });
        }
    }
    rules
}

/// Returns the lines `alias PATTERN MODULE` whose pattern matches the name, each with its module.
fn list_aliases<'s>(state: &'s ModuleState, name: &str) -> Vec<(&'s ConfLine, &'s str)> {
    let parse = |line: &'s ConfLine| {
        let mut words = line.text.split_ascii_whitespace();
        let alias = (words.next()? == "alias").then_some((words.next()?, words.next()?));
        alias.filter(|(pattern, _)| is_alias_match(pattern, name)).map(|(_, target)| (line, target))
    };
    state.modprobe.iter().filter_map(parse).collect()
}

/// Returns whether an `install` command certainly loads nothing.
fn does_nothing(command: &str) -> bool {
    matches!(command, "true" | "false" | ":")
        || matches!(command, "/bin/true" | "/bin/false")
        || matches!(command, "/usr/bin/true" | "/usr/bin/false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[(&str, &str)], cmdline: &str) -> Vec<LoadRule> {
        let line = |(file, text): &(&str, &str)| ConfLine { file: (*file).into(), line: 1, text: (*text).into() };
        let modprobe = lines.iter().map(line).collect();
        let state = ModuleState { modprobe, cmdline: cmdline.into(), ..ModuleState::default() };
        list_load_rules(&state, "nvidia_drm", "/m/forge.conf")
    }

    #[test]
    fn rules_of_the_command_line_name_several_modules() {
        let rules = list(&[], "ro modprobe.blacklist=nouveau,nvidia-drm module_blacklist=nvidia_drm quiet");
        let kinds: Vec<&LoadRuleKind> = rules.iter().map(|rule| &rule.kind).collect();
        assert_eq!(kinds, [&LoadRuleKind::Denylisted, &LoadRuleKind::KernelRefuses]);
        assert!(rules.iter().all(LoadRule::denies_boot));
        assert_eq!(rules.iter().filter(|rule| rule.denies_modprobe()).count(), 1);
    }

    #[test]
    fn only_the_first_install_line_takes_effect() {
        let (early, late) = (("/m/a.conf", "install nvidia-drm /bin/true"), ("/m/z.conf", "install nvidia_drm  false"));
        let own = ("/m/forge.conf", "install nvidia_drm /bin/false");
        let places =
            |lines: &[(&str, &str)]| -> Vec<String> { list(lines, "").into_iter().map(|rule| rule.place).collect() };
        assert_eq!(places(&[early, own, late]), ["/m/a.conf:1"]);
        assert_eq!(places(&[own, late]), [""; 0]);
        assert_eq!(places(&[("/m/b.conf", "install nvidia /bin/true"), late]), ["/m/z.conf:1"]);
    }

    /// origin: `modprobe -R` of kmod 30
    #[test]
    fn alias_of_the_name_loads_another_module() {
        let kinds = |lines: &[(&str, &str)]| -> Vec<LoadRuleKind> {
            list(lines, "").into_iter().map(|rule| rule.kind).collect()
        };
        let off = LoadRuleKind::OtherModule { module: "off".to_owned(), hides: true };
        assert_eq!(kinds(&[("/m/a.conf", "alias nvidia-drm off")]), std::slice::from_ref(&off));
        assert_eq!(kinds(&[("/m/a.conf", "alias nvidia* off")]), std::slice::from_ref(&off));
        assert_eq!(kinds(&[("/m/a.conf", "alias nvidia-[a-z]rm off")]), [off], "a dash in brackets is a range");
        assert_eq!(kinds(&[("/m/a.conf", "alias nvidia off"), ("/m/b.conf", "alias pci:v0* nvidia_drm")]), []);
        let only_alias = list(&[("/m/a.conf", "alias nvidia_drm extra")], "");
        assert!(only_alias.len() == 1 && !only_alias[0].denies_boot(), "the name loads the other module");
        let both = [("/m/a.conf", "alias nvidia_drm extra"), ("/m/b.conf", "alias nvidia_drm nvidia-drm")];
        assert_eq!(kinds(&both), [], "both are loaded");
        assert!(list(&[("/m/a.conf", "alias nvidia_drm off")], "").iter().all(LoadRule::denies_modprobe));
    }

    #[test]
    fn command_that_may_load_the_module_denies_nothing() {
        let rules = list(&[("/m/a.conf", "install nvidia_drm modprobe -i nvidia-drm && touch /run/x")], "");
        let kind = LoadRuleKind::InstallCommand("modprobe -i nvidia-drm && touch /run/x".into());
        assert_eq!((&rules[0].kind, rules[0].denies_boot()), (&kind, false));
    }
}
