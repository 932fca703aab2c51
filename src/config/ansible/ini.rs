//! Parses INI inventories line by line, as Ansible's `ini` plugin does.

use super::files::AnsibleFile;
use super::inventory::{AnsibleImportLog, AnsibleInventory, AnsibleValue, AnsibleVar, AnsibleVars};
use super::{host_patterns, python_literal, shlex};
use crate::diag::{Diag, DiagCode, Span};
use indexmap::IndexMap;

#[derive(Clone, Copy, PartialEq)]
enum IniSectionKind {
    Hosts,
    Children,
    Vars,
}

/// Groups that were referenced before they were declared.
enum PendingIniGroup {
    Vars(Span),
    Children(Span, Vec<String>),
}

/// Parses one file into `inventory`.
pub(super) fn read_ini_inventory(text: &AnsibleFile, inventory: &mut AnsibleInventory, reading: &mut AnsibleImportLog) {
    let mut reader = IniReader {
        text,
        inventory,
        reading,
        group: "ungrouped".to_owned(),
        state: IniSectionKind::Hosts,
        pending: IndexMap::new(),
    };
    let mut start = 0;
    for line in text.text.split_inclusive('\n') {
        reader.read_line(line, start);
        start += line.len();
    }
    reader.report_pending();
}

struct IniReader<'r> {
    text: &'r AnsibleFile,
    inventory: &'r mut AnsibleInventory,
    reading: &'r mut AnsibleImportLog,
    group: String,
    state: IniSectionKind,
    pending: IndexMap<String, PendingIniGroup>,
}

impl IniReader<'_> {
    fn read_line(&mut self, whole: &str, start: usize) {
        let line = whole.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            return;
        }
        let start = start + (whole.len() - whole.trim_start().len());
        let span = Span { file: self.text.file, start: start as u32, end: (start + line.len()) as u32 };
        match parse_section(line) {
            Some((name, kind)) => self.open_section(name, kind, span),
            None if line.starts_with('[') && line.ends_with(']') => {
                self.report_with_hint(span, format!("`{line}` is not a valid section"))
                    .set_hint("write `[group]`, `[group:children]` or `[group:vars]`");
            }
            None => match self.state {
                IniSectionKind::Hosts => self.read_host(line, span),
                IniSectionKind::Children => self.read_child(line, span),
                IniSectionKind::Vars => self.read_var(line, span),
            },
        }
    }

    /// Like [`Self::report_with_hint`], without a hint.
    fn report_error(&mut self, span: Span, why: impl Into<String>) {
        self.report_with_hint(span, why);
    }

    fn report_with_hint(&mut self, span: Span, message: impl Into<String>) -> IniDiagHint<'_> {
        self.reading.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span));
        IniDiagHint(self.reading)
    }

    fn open_section(&mut self, name: &str, kind: Option<&str>, span: Span) {
        self.state = match kind {
            None | Some("hosts") => IniSectionKind::Hosts,
            Some("children") => IniSectionKind::Children,
            Some("vars") => IniSectionKind::Vars,
            Some(other) => {
                self.report_with_hint(span, format!("`[{name}:{other}]` is not a valid section"))
                    .set_hint("write `[group]`, `[group:children]` or `[group:vars]`");
                return;
            }
        };
        self.group = name.to_owned();
        if !self.inventory.groups.contains_key(name) {
            if self.state == IniSectionKind::Vars && !self.pending.contains_key(name) {
                self.pending.insert(name.to_owned(), PendingIniGroup::Vars(span));
            }
            self.inventory.add_group(name);
        }
        if self.state != IniSectionKind::Vars {
            self.nest_pending_group(name);
        }
    }

    /// Adds a declared group to the groups that referenced it before.
    fn nest_pending_group(&mut self, name: &str) {
        if let Some(PendingIniGroup::Children(span, outer)) = self.pending.shift_remove(name) {
            for outer in outer {
                self.nest_group(&outer, name, span);
            }
        }
    }

    fn nest_group(&mut self, outer: &str, inner: &str, span: Span) {
        if !self.inventory.add_child(outer, inner) {
            self.reading.push_diag(
                Diag::error(DiagCode::GroupCycle, format!("groups `{outer}` and `{inner}` contain each other"))
                    .with_span(span),
            );
        }
    }

    fn read_host(&mut self, line: &str, span: Span) {
        let words = match shlex::split_words(line) {
            Ok(words) => words,
            Err(why) => return self.report_error(span, why),
        };
        let Some((pattern, rest)) = words.split_first() else { return };
        let (names, port) = match host_patterns::expand_pattern(pattern) {
            Ok(found) => found,
            Err(why) => {
                self.reading
                    .push_diag(Diag::error(DiagCode::BadRange, format!("host `{pattern}`: {why}")).with_span(span));
                return;
            }
        };
        if pattern.ends_with(':') || pattern == "---" {
            self.report_with_hint(span, format!("invalid host `{pattern}`"))
                .set_hint("this looks like YAML: name the file `….yml`");
            return;
        }
        let mut vars = AnsibleVars::new();
        for word in rest {
            match word.split_once('=') {
                Some((key, value)) => drop(vars.insert(key.to_owned(), self.parse_var(key, value, span))),
                None => {
                    return self
                        .report_error(span, format!("expected `key=value` for host `{pattern}`, found `{word}`"));
                }
            }
        }
        let group = self.group.clone();
        self.inventory.add_hosts(&names, port, &vars, &group, span);
    }

    fn read_child(&mut self, line: &str, span: Span) {
        let Some(child) = parse_group_name(line) else {
            return self.report_error(span, format!("`{line}` is not a valid group name"));
        };
        let outer = self.group.clone();
        if self.inventory.groups.contains_key(child)
            && !matches!(self.pending.get(child), Some(PendingIniGroup::Children(..)))
        {
            return self.nest_group(&outer, child, span);
        }
        match self.pending.get_mut(child) {
            Some(PendingIniGroup::Children(_, outers)) => outers.push(outer),
            _ => drop(self.pending.insert(child.to_owned(), PendingIniGroup::Children(span, vec![outer]))),
        }
    }

    fn read_var(&mut self, line: &str, span: Span) {
        let Some((key, value)) = line.split_once('=') else {
            return self.report_error(span, format!("expected `key=value` for group `{}`, found `{line}`", self.group));
        };
        let var = self.parse_var(key.trim(), value.trim(), span);
        let group = self.group.clone();
        self.inventory.set_var(&group, key.trim(), var);
    }

    fn parse_var(&mut self, key: &str, text: &str, span: Span) -> AnsibleVar {
        let (value, note) = python_literal::parse_literal(text);
        if let Some(note) = note {
            let place = self.reading.format_location(span);
            self.reading.record_difference(format!("`{key}`: {note}"), place);
        }
        let value = match value {
            AnsibleValue::Value(value) => AnsibleValue::from_value(value),
            lost => lost,
        };
        AnsibleVar { value, span }
    }

    fn report_pending(mut self) {
        for (name, pending) in std::mem::take(&mut self.pending) {
            let (span, message) = match pending {
                PendingIniGroup::Vars(span) => {
                    (span, format!("`[{name}:vars]` refers to a group that is not declared"))
                }
                PendingIniGroup::Children(span, _) => (span, format!("group `{name}` is not declared")),
            };
            self.report_with_hint(span, message).set_hint(&format!("add a section `[{name}]`; it may be empty"));
        }
    }
}

/// Adds a hint to the last reported error.
struct IniDiagHint<'r>(&'r mut AnsibleImportLog);

impl IniDiagHint<'_> {
    fn set_hint(self, hint: &str) {
        if let Some(diag) = self.0.diags.0.last_mut() {
            diag.hint = Some(hint.to_owned());
        }
    }
}

/// Parses `[name]` or `[name:kind]` into name and kind.
fn parse_section(line: &str) -> Option<(&str, Option<&str>)> {
    let (inner, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.trim_start();
    if !(rest.is_empty() || rest.starts_with('#')) {
        return None;
    }
    let (name, kind) = match inner.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (inner, None),
    };
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let named = !name.is_empty() && !name.contains(char::is_whitespace);
    (named && kind.is_none_or(word)).then_some((name, kind))
}

/// Parses a line that contains only a group name.
fn parse_group_name(line: &str) -> Option<&str> {
    let end = line.find(|c: char| c.is_whitespace() || matches!(c, ':' | ']')).unwrap_or(line.len());
    let rest = line[end..].trim_start();
    (end > 0 && (rest.is_empty() || rest.starts_with('#'))).then(|| &line[..end])
}
