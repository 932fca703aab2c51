//! The effect of a command on a path, by the position of the path in its arguments. Pure.
//!
//! Architecture Invariant: an effect is reported only for a program and a position that are known to have it; any other
//! command that names the path is [`PathEffect::Unclear`].

use super::programs::{EDITOR_PROGRAMS, READ_ONLY_PROGRAMS, SHELL_PROGRAMS};
use super::shell_script::{ShellRedirect, parse_shell_script};
use crate::resource::ChangeAspect;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;

/// What a command does to a path that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathEffect {
    /// Reads it, and changes nothing.
    Reads,
    /// Writes its content; owner and mode stay.
    Writes,
    /// Writes its content, and may set owner and mode.
    Replaces,
    Removes,
    /// Creates it if it is missing; otherwise it only sets its times.
    Touches,
    SetsOwner,
    /// Sets its mode or its group.
    SetsMode,
    /// The command names it; the effect is not known.
    Unclear,
}

impl PathEffect {
    /// Reports whether the effect explains a difference of that aspect; `gone` if the path does not exist any more.
    pub fn explains(self, aspect: ChangeAspect, gone: bool) -> bool {
        let replaces = self == Self::Replaces;
        match aspect {
            _ if gone => self == Self::Removes,
            ChangeAspect::Existence => replaces || matches!(self, Self::Writes | Self::Touches),
            ChangeAspect::Content => replaces || self == Self::Writes,
            ChangeAspect::Owner => replaces || self == Self::SetsOwner,
            ChangeAspect::Other => replaces || matches!(self, Self::SetsMode | Self::SetsOwner),
            _ => !matches!(self, Self::Reads | Self::Unclear),
        }
    }
}

/// Programs with one effect on each of their operands: names, effect, and the short options that take a value.
const OPERAND_EFFECTS: [(&[&str], PathEffect, &str); 10] = [
    (&["tee", "sponge"], PathEffect::Writes, ""),
    (&["truncate"], PathEffect::Writes, "sr"),
    (&["mkdir"], PathEffect::Writes, "m"),
    (&["touch"], PathEffect::Touches, "rdt"),
    (&["rm", "unlink", "rmdir"], PathEffect::Removes, ""),
    (&["chmod", "chgrp"], PathEffect::SetsMode, ""),
    (&["setfacl"], PathEffect::SetsMode, "mxMX"),
    (&["chown"], PathEffect::SetsOwner, ""),
    (&["echo", "printf", "jq", "zcat", "zgrep", "named-checkconf", "named-checkzone"], PathEffect::Reads, ""),
    (&EDITOR_PROGRAMS, PathEffect::Replaces, ""),
];

/// Programs that write their last operand and read the others: name, effect, and the short options that take a value.
const COPY_PROGRAMS: [(&str, PathEffect, &str); 6] = [
    ("cp", PathEffect::Writes, "St"),
    ("scp", PathEffect::Writes, "cFiJloPSX"),
    ("mv", PathEffect::Replaces, "St"),
    ("install", PathEffect::Replaces, "gmoSt"),
    ("ln", PathEffect::Replaces, "St"),
    ("rsync", PathEffect::Replaces, "BefMT"),
];

/// Programs that only check a configuration, if they have one of these words.
const CONFIG_CHECKS: [(&str, &[&str]); 7] = [
    ("sshd", &["-t", "-T", "-G"]),
    ("visudo", &["-c", "-cf", "-cs", "-csf", "-cq", "-cqf", "--check"]),
    ("nginx", &["-t", "-T", "-tq"]),
    ("apachectl", &["-t", "-S", "configtest"]),
    ("apache2ctl", &["-t", "-S", "configtest"]),
    ("haproxy", &["-c"]),
    ("nft", &["-c", "-cf", "--check", "-f", "--file"]),
];

/// Programs that run the rest of their arguments as a command.
const COMMAND_PREFIXES: [&str; 7] = ["command", "env", "exec", "nohup", "setsid", "sudo", "time"];

/// Returns what a command does to a path, which may be relative to `cwd` in it.
pub fn list_path_effects(words: &[String], cwd: &Utf8Path, path: &str) -> BTreeSet<PathEffect> {
    PathQuery { cwd: cwd.to_owned(), path: normalize_path(Utf8Path::new("/"), path) }.list_effects(words)
}

struct PathQuery {
    cwd: Utf8PathBuf,
    path: Utf8PathBuf,
}

impl PathQuery {
    fn is_path(&self, word: &str) -> bool {
        normalize_path(&self.cwd, word) == self.path
    }

    fn is_below(&self, word: &str) -> bool {
        self.path.starts_with(normalize_path(&self.cwd, word))
    }

    fn is_mentioned(&self, words: &[String]) -> bool {
        words.iter().any(|word| split_tokens(word).any(|token| self.is_path(token)))
    }

    fn list_effects(&self, words: &[String]) -> BTreeSet<PathEffect> {
        let Some((first, arguments)) = words.split_first() else { return BTreeSet::new() };
        let program = first.rsplit('/').next().unwrap_or(first);
        if COMMAND_PREFIXES.contains(&program) && arguments.first().is_some_and(|word| !word.starts_with('-')) {
            let rest = arguments.iter().position(|word| !is_assignment(word)).unwrap_or(arguments.len());
            return self.list_effects(&arguments[rest..]);
        }
        if SHELL_PROGRAMS.contains(&program)
            && let Some(at) = arguments.iter().position(|word| has_letters(word, "c"))
        {
            return self.list_script_effects(&arguments[at + 1..]);
        }
        let effects = self.list_known_effects(program, arguments);
        match effects.is_empty() && self.is_mentioned(arguments) {
            true => [PathEffect::Unclear].into(),
            false => effects,
        }
    }

    /// Returns the effects of `sh -c`. Older versions of sudo print the script without quotes: its words are joined.
    fn list_script_effects(&self, words: &[String]) -> BTreeSet<PathEffect> {
        let Some((script, values)) = words.split_first() else { return BTreeSet::new() };
        let quoted = script.contains(char::is_whitespace);
        let whole = if quoted { script.clone() } else { words.join(" ") };
        let mut effects = BTreeSet::new();
        let mut here = Self { cwd: self.cwd.clone(), path: self.path.clone() };
        for command in parse_shell_script(&whole) {
            let start = command.words.iter().position(|word| !is_assignment(word)).unwrap_or(command.words.len());
            effects.extend(here.list_effects(&command.words[start..]));
            for (kind, _) in command.redirects.iter().filter(|(_, target)| here.is_path(target)) {
                effects.insert(match kind {
                    ShellRedirect::Output => PathEffect::Writes,
                    ShellRedirect::Input => PathEffect::Reads,
                    ShellRedirect::Other => PathEffect::Unclear,
                });
            }
            if let [cd, folder] = &command.words[start..]
                && cd == "cd"
            {
                here.cwd = normalize_path(&here.cwd, folder);
            }
        }
        let mentioned = self.is_mentioned(std::slice::from_ref(&whole));
        if quoted && self.is_mentioned(values) || mentioned && effects.is_empty() {
            effects.insert(PathEffect::Unclear);
        }
        effects
    }

    fn list_known_effects(&self, program: &str, arguments: &[String]) -> BTreeSet<PathEffect> {
        let mentioned = self.is_mentioned(arguments);
        let reads = || mentioned.then_some(PathEffect::Reads);
        if let Some(&(_, effect, values)) = COPY_PROGRAMS.iter().find(|(name, ..)| *name == program) {
            return self.list_copy_effects(program, effect, &list_operands(arguments, values), arguments);
        }
        if let Some(&(_, effect, values)) = OPERAND_EFFECTS.iter().find(|(names, ..)| names.contains(&program)) {
            return self.operand_effect(effect, &list_operands(arguments, values), arguments).into_iter().collect();
        }
        let check = CONFIG_CHECKS.iter().find(|(name, _)| *name == program);
        if check.is_some_and(|(_, flags)| arguments.iter().any(|word| flags.contains(&word.as_str()))) {
            return reads().into_iter().collect();
        }
        let acts = |word: &String| ["-delete", "-exec", "-execdir", "-ok", "-fprint"].contains(&word.as_str());
        let effect = match program {
            "dd" => self.dd_effect(arguments),
            "sed" => self.sed_effect(arguments),
            "perl" if arguments.iter().any(|word| has_flag(word, 'i', "eEMI")) => {
                self.operand_effect(PathEffect::Replaces, &list_operands(arguments, "eEMI"), arguments)
            }
            "tar" => self.tar_effect(arguments),
            "visudo" => mentioned.then_some(PathEffect::Replaces),
            "curl" => self.output_effect(arguments, 'o', "--output"),
            "wget" => self.output_effect(arguments, 'O', "--output-document"),
            "patch" => list_operands(arguments, "BDFgioprVYz")
                .first()
                .filter(|word| self.is_path(word))
                .map(|_| PathEffect::Replaces),
            "find" if arguments.iter().any(acts) => None,
            _ if READ_ONLY_PROGRAMS.contains(&program) => reads(),
            _ => None,
        };
        effect.into_iter().collect()
    }

    fn operand_effect(&self, effect: PathEffect, operands: &[&str], arguments: &[String]) -> Option<PathEffect> {
        let flags = match effect {
            PathEffect::Removes => "rR",
            PathEffect::SetsMode | PathEffect::SetsOwner => "R",
            _ => "",
        };
        let recursive = arguments.iter().any(|word| has_letters(word, flags) || word == "--recursive");
        let hit = |word: &&&str| self.is_path(word) || recursive && self.is_below(word);
        operands.iter().find(hit).map(|_| effect)
    }

    /// Returns the effects of a copy: on its destination, which may be the folder of the path, and on its sources.
    fn list_copy_effects(
        &self,
        program: &str,
        effect: PathEffect,
        operands: &[&str],
        arguments: &[String],
    ) -> BTreeSet<PathEffect> {
        let folder = match program {
            "cp" | "mv" | "install" | "ln" => option_value(arguments, 't', "--target-directory"),
            _ => None,
        };
        let (target, sources) = match (folder, operands.split_last()) {
            (Some(folder), _) => (folder, operands),
            (None, Some((last, sources))) => (*last, sources),
            (None, None) => return BTreeSet::new(),
        };
        let keeps = |word: &String| has_letters(word, "pa") || word.starts_with("--preserve") || word == "--archive";
        let effect = match effect {
            PathEffect::Writes if arguments.iter().any(keeps) => PathEffect::Replaces,
            effect => effect,
        };
        let into = normalize_path(&self.cwd, target);
        let inside = |source: &&str| Utf8Path::new(source).file_name().is_some_and(|name| into.join(name) == self.path);
        let mut effects = BTreeSet::new();
        let created = program == "install" && arguments.iter().any(|word| has_letters(word, "d"));
        if into == self.path || sources.iter().any(inside) || created && operands.iter().any(|one| self.is_path(one)) {
            effects.insert(effect);
        } else if program == "mv" && sources.iter().any(|source| self.is_below(source)) {
            effects.insert(PathEffect::Removes);
        } else if arguments.iter().any(|word| word == "--remove-source-files") || self.path.starts_with(&into) {
            // A copied folder may contain the path.
            effects.insert(PathEffect::Unclear);
        } else if self.is_mentioned(arguments) {
            effects.insert(PathEffect::Reads);
        }
        effects
    }

    fn dd_effect(&self, arguments: &[String]) -> Option<PathEffect> {
        let names =
            |key: &str| arguments.iter().filter_map(|word| word.strip_prefix(key)).any(|value| self.is_path(value));
        match (names("of="), names("if=")) {
            (true, _) => Some(PathEffect::Writes),
            (false, true) => Some(PathEffect::Reads),
            (false, false) => None,
        }
    }

    /// Returns the effect of sed on its files. Its script may write other files.
    fn sed_effect(&self, arguments: &[String]) -> Option<PathEffect> {
        let operands = list_operands(arguments, "efl");
        let has_script =
            |word: &String| has_letters(word, "ef") || word.starts_with("--expression") || word.starts_with("--file");
        let scripts = usize::from(!arguments.iter().any(has_script));
        let in_place = |word: &String| word.starts_with("--in-place") || has_flag(word, 'i', "efl");
        let hit = operands.iter().skip(scripts).any(|word| self.is_path(word));
        match arguments.iter().any(in_place) {
            true => hit.then_some(PathEffect::Replaces),
            false => hit.then_some(PathEffect::Reads),
        }
    }

    /// Returns the effect of tar: it reads the members of an archive that it creates, and an archive that it lists.
    fn tar_effect(&self, arguments: &[String]) -> Option<PathEffect> {
        let first = arguments.first().map(|word| word.trim_start_matches('-'));
        let mode = |letter: char, long: &str| {
            first.is_some_and(|first| first.contains(letter)) || arguments.iter().any(|word| word == long)
        };
        let bundled = arguments.first().filter(|word| word.ends_with('f') && !word.starts_with("--"));
        let archive = match bundled {
            Some(_) => arguments.get(1).map(String::as_str),
            None => option_value(arguments, 'f', "--file"),
        };
        let is_archive = archive.is_some_and(|archive| self.is_path(archive));
        if arguments.iter().any(|word| word == "--remove-files") {
            return None;
        }
        match (mode('c', "--create"), mode('t', "--list")) {
            (true, _) if is_archive => Some(PathEffect::Writes),
            (true, _) | (_, true) => self.is_mentioned(arguments).then_some(PathEffect::Reads),
            _ => None,
        }
    }

    fn output_effect(&self, arguments: &[String], short: char, long: &str) -> Option<PathEffect> {
        option_value(arguments, short, long).filter(|value| self.is_path(value)).map(|_| PathEffect::Writes)
    }
}

/// Reports whether a word is a cluster of short options with one of these letters.
fn has_letters(word: &str, letters: &str) -> bool {
    word.strip_prefix('-').is_some_and(|flags| !flags.starts_with('-') && flags.contains(|c| letters.contains(c)))
}

/// Reports whether a word is a cluster of short options with this one, before any that takes the rest as its value.
fn has_flag(word: &str, flag: char, values: &str) -> bool {
    let flags = word.strip_prefix('-').filter(|flags| !flags.starts_with('-')).unwrap_or_default();
    flags.chars().take_while(|c| !values.contains(*c)).any(|c| c == flag)
}

/// Reports whether a word of a script sets a variable: `LC_ALL=C`.
fn is_assignment(word: &str) -> bool {
    let name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=').is_some_and(|(key, _)| name(key))
}

/// Returns the arguments without options. `values` has the short options whose value may be the next argument.
fn list_operands<'w>(arguments: &'w [String], values: &str) -> Vec<&'w str> {
    let mut operands = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            None | Some("") => operands.push(word),
            Some("-") => {
                operands.extend(words);
                break;
            }
            Some(flags) if flags.starts_with('-') => {}
            Some(flags) => {
                if flags.find(|c| values.contains(c)).is_some_and(|at| at + 1 == flags.len()) {
                    words.next();
                }
            }
        }
    }
    operands
}

/// Returns the value of an option: `-t DIR`, `-tDIR`, `--target-directory DIR` or `--target-directory=DIR`.
fn option_value<'w>(arguments: &'w [String], short: char, long: &str) -> Option<&'w str> {
    for (at, word) in arguments.iter().enumerate() {
        let next = || arguments.get(at + 1).map(String::as_str);
        if let Some(rest) = word.strip_prefix(long) {
            return if rest.is_empty() { next() } else { rest.strip_prefix('=') };
        }
        if has_letters(word, &short.to_string())
            && let Some((_, rest)) = word.split_once(short)
        {
            return if rest.is_empty() { next() } else { Some(rest) };
        }
    }
    None
}

/// Returns the parts of a word that may name an object, without quotes, operators and assignments.
pub fn split_tokens(word: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| c.is_whitespace() || "'\"`;|&<>(){}=,".contains(c);
    word.split(apart).filter(|token| !token.is_empty())
}

/// Returns a path without `.` and `..`.
pub fn normalize_path(cwd: &Utf8Path, path: &str) -> Utf8PathBuf {
    let mut out = Utf8PathBuf::from("/");
    for component in cwd.join(path).components() {
        match component {
            Utf8Component::Normal(name) => out.push(name),
            Utf8Component::ParentDir => drop(out.pop()),
            _ => {}
        }
    }
    out
}
