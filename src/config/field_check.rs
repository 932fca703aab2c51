//! Checks a rendered tree against a table of fields, reports all errors and returns typed values.

use super::scalar::{self, describe_node, shorten_text};
use super::yaml_table::{
    build_not_a_bool_diag, build_not_a_duration_diag, build_out_of_range_diag, build_wrong_type_diag,
    build_zero_duration_diag, quote_key,
};
use super::{PendingInput, YamlData, YamlKey, YamlNode, unknown_keys};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{SecretStore, Value};
use crate::resource::{FieldSpec, FieldType, FieldValues, ResourceKind};
use std::collections::BTreeSet;

/// Access to the local files that fields refer to.
pub(super) trait FieldFileReader {
    /// Returns the text of a file, or `{ base64: … }` of its bytes.
    ///
    /// # Errors
    /// Why the file cannot be read, at `span`.
    fn read_source(&self, path: &str, span: Span) -> Result<Value, Box<Diag>>;

    /// Returns the path of a file without reading it.
    ///
    /// # Errors
    /// Why the file cannot be used, at `span`.
    fn locate_file(&self, path: &str, span: Span) -> Result<Value, Box<Diag>>;

    /// Returns the YAML documents of a file, as a list of values.
    ///
    /// # Errors
    /// Why the file cannot be read or parsed.
    fn read_documents(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
        match self.read_source(path, span)? {
            Value::String(text) => super::yaml_documents::read_documents(path, &text, span),
            // Local files are not read without hosts.
            Value::Null => Ok(Value::Null),
            _ => Err(Box::new(Diag::error(DiagCode::BadValue, format!("`{path}` is not text")).with_span(span))),
        }
    }

    /// Returns the rendered text of a file.
    ///
    /// # Errors
    /// Why the file cannot be read or rendered.
    fn render_template(&self, path: &str, span: Span) -> Result<RenderedFile, Box<Diag>>;
}

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct CheckedFields {
    pub fields: FieldValues,
    /// Fields whose value is not known yet, by path (`env.HOME`), with the reason.
    pub deferred: Vec<(String, PendingInput)>,
    /// Paths of facts that local template files read.
    pub reads: BTreeSet<String>,
    pub diags: Vec<Diag>,
}

/// The result of rendering a local file.
#[derive(Debug)]
pub(super) enum RenderedFile {
    Known { text: String, reads: BTreeSet<String> },
    Waits(PendingInput),
}

/// Checks `node` against the fields of a kind.
pub(super) fn check_kind_fields(node: &YamlNode, kind: &ResourceKind, local: &dyn FieldFileReader) -> CheckedFields {
    check_fields(node, kind.fields, &format!("`{}`", kind.name), kind.traits.explains_secrets, local)
}

/// Checks `node` against `table`. `what` describes it in messages, with its article: `a file`. With `explains_secrets`
/// all fields pass text with secrets to the kind.
fn check_fields(
    node: &YamlNode,
    table: &'static [FieldSpec],
    what: &str,
    explains_secrets: bool,
    local: &dyn FieldFileReader,
) -> CheckedFields {
    let takes_env = table.iter().any(|field| field.name == "env" && field.passes_secrets);
    let (deferred, reads, diags) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut check = FieldChecker { local, explains_secrets, takes_env, deferred, reads, diags };
    let fields = check.check_table(node, table, what, "");
    CheckedFields { fields, deferred: check.deferred, reads: check.reads, diags: check.diags }
}

struct FieldChecker<'c> {
    local: &'c dyn FieldFileReader,
    explains_secrets: bool,
    /// Whether the table has an `env` that accepts secrets.
    takes_env: bool,
    deferred: Vec<(String, PendingInput)>,
    reads: BTreeSet<String>,
    diags: Vec<Diag>,
}

/// A value without a result: its error is among the diagnostics, or it is deferred.
struct RefusedValue;

type CheckedValue = Result<Value, RefusedValue>;

impl FieldChecker<'_> {
    fn check_table(&mut self, node: &YamlNode, table: &'static [FieldSpec], what: &str, path: &str) -> FieldValues {
        let mut fields = FieldValues::default();
        let entries: &[(YamlKey, YamlNode)] = match &node.data {
            YamlData::Map(entries) => entries,
            YamlData::Null => &[],
            _ => {
                let names: Vec<String> = table.iter().map(|field| format!("`{}`", field.name)).collect();
                let hint = (!path.is_empty()).then(|| format!("its keys are {}", names.join(", ")));
                self.diags.push(Diag { hint, ..build_wrong_type_diag(node, what, "a map") });
                return fields;
            }
        };
        let known: Vec<&str> = table.iter().map(|field| field.name).collect();
        let mut meant = Vec::new();
        for (key, value) in entries {
            let Some(field) = table.iter().find(|field| field.name == key.text) else {
                self.diags.push(unknown_keys::build_unknown_key_diag(key, value, what, &known));
                meant.extend(unknown_keys::guess_known_key(&key.text, &known));
                continue;
            };
            if matches!(value.data, YamlData::Null) {
                continue;
            }
            if let Ok(value) = self.check_field(field, value, &join_path(path, field.name)) {
                fields.0.insert(field.name, value);
            }
        }
        self.report_missing_fields(entries, &meant, table, what, node.span);
        fields
    }

    /// Reports missing fields, except fields that an unknown key probably means.
    fn report_missing_fields(
        &mut self,
        entries: &[(YamlKey, YamlNode)],
        meant: &[&str],
        table: &[FieldSpec],
        what: &str,
        span: Span,
    ) {
        let given = |field: &&FieldSpec| {
            entries.iter().any(|(key, node)| key.text == field.name && !matches!(node.data, YamlData::Null))
        };
        let lacks = |field: &&FieldSpec| field.required && !given(field) && !meant.contains(&field.name);
        for field in table.iter().filter(lacks) {
            self.diags
                .push(Diag::error(DiagCode::MissingKey, format!("{what} needs `{}`", field.name)).with_span(span));
        }
    }

    fn check_field(&mut self, field: &FieldSpec, node: &YamlNode, path: &str) -> CheckedValue {
        let passes = field.passes_secrets || self.explains_secrets;
        self.refuse_secrets(field.ty, node, path, passes)?;
        match (field.ty, field.name) {
            (FieldType::LocalFile, "template") => self.check_template(node, path, passes),
            (ty, _) => self.check_value(ty, node, path),
        }
    }

    /// Reports each secret in a value that must not contain one: a parser would judge the placeholder, and the value may
    /// end in a name, a command line or a file that everyone can read.
    fn refuse_secrets(&mut self, ty: FieldType, node: &YamlNode, path: &str, passes: bool) -> Result<(), RefusedValue> {
        match (ty, &node.data) {
            (FieldType::Secret | FieldType::Any | FieldType::Table(_), _) => Ok(()),
            (FieldType::Text | FieldType::Line, _) if passes => Ok(()),
            (FieldType::List(inner), YamlData::Seq(items)) => items
                .iter()
                .enumerate()
                .try_for_each(|(at, item)| self.refuse_secrets(*inner, item, &format!("{path}[{at}]"), passes)),
            (FieldType::Map(inner), YamlData::Map(entries)) => entries
                .iter()
                .try_for_each(|(key, item)| self.refuse_secrets(*inner, item, &join_path(path, &key.text), passes)),
            (_, YamlData::Scalar { text, .. }) if SecretStore::has_placeholder(text) => {
                self.diags.push(self.build_secret_diag(node, path));
                Err(RefusedValue)
            }
            _ => Ok(()),
        }
    }

    fn build_secret_diag(&self, node: &YamlNode, path: &str) -> Diag {
        let hint = match self.takes_env {
            true => "pass it in `env`, which only the account of its process and root can read",
            false => "plans show this value, and every account of the host may be able to read it",
        };
        Diag::error(DiagCode::BadValue, format!("`{path}` must not contain a secret")).with_span(node.span).hint(hint)
    }

    fn check_value(&mut self, ty: FieldType, node: &YamlNode, path: &str) -> CheckedValue {
        if let YamlData::Unknown(need) = &node.data {
            self.deferred.push((path.to_owned(), need.clone()));
            return Err(RefusedValue);
        }
        match ty {
            FieldType::List(inner) => self.check_list(*inner, node, path),
            FieldType::Map(inner) => self.check_map(*inner, node, path),
            FieldType::Table(table) => {
                let fields = self.check_table(node, table, &quote_key(path), path);
                Ok(Value::Object(fields.0.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
            }
            FieldType::Any => Ok(self.take_any_value(node, path)),
            _ => self.check_scalar(ty, node, path),
        }
    }

    fn check_list(&mut self, inner: FieldType, node: &YamlNode, path: &str) -> CheckedValue {
        let YamlData::Seq(items) = &node.data else {
            let diag = build_wrong_type_diag(node, &quote_key(path), "a list");
            let hint = match &node.data {
                YamlData::Scalar { text, .. } => Some(format!("write `[{}]`", shorten_text(text))),
                _ => None,
            };
            self.diags.push(Diag { hint, ..diag });
            return Err(RefusedValue);
        };
        let values: Vec<CheckedValue> = items
            .iter()
            .enumerate()
            .map(|(at, item)| self.check_value(inner, item, &format!("{path}[{at}]")))
            .collect();
        values.into_iter().collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn check_map(&mut self, inner: FieldType, node: &YamlNode, path: &str) -> CheckedValue {
        let YamlData::Map(entries) = &node.data else {
            return self.refuse_value(build_wrong_type_diag(node, &quote_key(path), "a map"));
        };
        let pair = |(key, node): &(YamlKey, YamlNode)| {
            Ok((key.text.clone(), self.check_value(inner, node, &join_path(path, &key.text))?))
        };
        let values: Vec<Result<_, RefusedValue>> = entries.iter().map(pair).collect();
        values.into_iter().collect::<Result<_, _>>().map(Value::Object)
    }

    /// Returns any value unchecked. Parts that are not known yet defer it.
    fn take_any_value(&mut self, node: &YamlNode, path: &str) -> Value {
        if let Some(need) = super::tree_render::find_pending_input(node) {
            self.deferred.push((path.to_owned(), need));
        }
        scalar::node_to_value(node)
    }

    fn check_scalar(&mut self, ty: FieldType, node: &YamlNode, path: &str) -> CheckedValue {
        let YamlData::Scalar { text, quoted } = &node.data else {
            return self.refuse_value(build_wrong_type_diag(
                node,
                &super::yaml_table::quote_key(path),
                describe_expected_type(ty),
            ));
        };
        let result = match ty {
            FieldType::Text => Ok(Value::from(text.as_str())),
            FieldType::LocalFile => self.local.read_source(text, node.span),
            FieldType::LocalDocuments => self.local.read_documents(text, node.span),
            FieldType::LocalPath => self.local.locate_file(text, node.span),
            _ => parse_scalar(ty, TypedScalar { node, text, quoted: *quoted, path }),
        };
        result.or_else(|diag| self.refuse_value(*diag))
    }

    fn check_template(&mut self, node: &YamlNode, path: &str, passes_secrets: bool) -> CheckedValue {
        let text = match &node.data {
            YamlData::Unknown(_) => return self.check_value(FieldType::Text, node, path),
            YamlData::Scalar { text, .. } => text,
            _ => {
                return self.refuse_value(build_wrong_type_diag(
                    node,
                    &quote_key(path),
                    describe_expected_type(FieldType::LocalFile),
                ));
            }
        };
        match self.local.render_template(text, node.span) {
            Ok(RenderedFile::Known { text, .. }) if !passes_secrets && SecretStore::has_placeholder(&text) => {
                self.refuse_value(self.build_secret_diag(node, path))
            }
            Ok(RenderedFile::Known { text, reads }) => {
                self.reads.extend(reads);
                Ok(Value::from(text))
            }
            Ok(RenderedFile::Waits(need)) => {
                self.deferred.push((path.to_owned(), need));
                Err(RefusedValue)
            }
            Err(diag) => self.refuse_value(*diag),
        }
    }

    fn refuse_value(&mut self, diag: Diag) -> CheckedValue {
        self.diags.push(diag);
        Err(RefusedValue)
    }
}

fn join_path(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn describe_expected_type(ty: FieldType) -> &'static str {
    match ty {
        FieldType::Bool => "`true` or `false`",
        FieldType::Int { .. } => "a whole number",
        FieldType::Duration | FieldType::Wait => "a duration",
        FieldType::Mode => "quoted octal text",
        FieldType::Path => "an absolute path",
        FieldType::LocalFile | FieldType::LocalPath | FieldType::LocalDocuments => "a path in the inventory's tree",
        _ => "text",
    }
}

/// A scalar that is being typed.
struct TypedScalar<'n> {
    node: &'n YamlNode,
    text: &'n str,
    quoted: bool,
    path: &'n str,
}

impl TypedScalar<'_> {
    fn build_bad_value_diag(&self, why: impl std::fmt::Display) -> Diag {
        Diag::error(DiagCode::BadValue, format!("`{}` {why}, found `{}`", self.path, shorten_text(self.text)))
            .with_span(self.node.span)
    }

    fn build_wrong_type_diag(&self, ty: FieldType) -> Diag {
        build_wrong_type_diag(self.node, &quote_key(self.path), describe_expected_type(ty))
    }
}

type ParsedScalar = Result<Value, Box<Diag>>;

fn parse_scalar(ty: FieldType, scalar: TypedScalar<'_>) -> ParsedScalar {
    match ty {
        FieldType::Line => parse_line(&scalar),
        FieldType::Path => scalar::normalize_host_path(scalar.text)
            .map(Value::from)
            .map_err(|why| scalar.build_bad_value_diag(why).into()),
        FieldType::Mode => parse_mode(&scalar),
        FieldType::Bool => parse_boolean(&scalar),
        FieldType::Int { min, max } => parse_int(&scalar, min, max),
        FieldType::Version => parse_version(&scalar),
        FieldType::Duration | FieldType::Wait => match scalar::parse_whole_seconds(scalar.text) {
            Some(0) if ty == FieldType::Duration => {
                Err(build_zero_duration_diag(scalar.node, &quote_key(scalar.path)).into())
            }
            Some(seconds) => Ok(Value::from(seconds)),
            None => Err(build_not_a_duration_diag(scalar.node, &quote_key(scalar.path)).into()),
        },
        FieldType::Enum(known) => parse_choice(&scalar, known),
        FieldType::Name => parse_name(&scalar),
        FieldType::Secret => parse_secret(&scalar),
        _ => Ok(Value::from(scalar.text)),
    }
}

fn parse_line(scalar: &TypedScalar<'_>) -> ParsedScalar {
    match scalar.text.contains(['\n', '\r']) {
        true => Err(Box::new(
            Diag::error(DiagCode::BadValue, format!("`{}` must be a single line", scalar.path))
                .with_span(scalar.node.span),
        )),
        false => Ok(Value::from(scalar.text)),
    }
}

fn parse_mode(scalar: &TypedScalar<'_>) -> ParsedScalar {
    let bits = scalar::parse_mode(scalar.text);
    match (bits, scalar.quoted) {
        (Some(bits), true) => Ok(Value::from(bits)),
        (Some(_), false) => {
            let diag = Diag::error(
                DiagCode::WrongType,
                format!("`{}` must be quoted octal text, found {}", scalar.path, scalar.text),
            );
            Err(Box::new(diag.with_span(scalar.node.span).hint(format!("write `\"{:0>4}\"`", scalar.text))))
        }
        (None, _) => Err(Box::new(
            scalar.build_bad_value_diag("must be octal permission bits").hint("write them like `\"0644\"`"),
        )),
    }
}

fn parse_boolean(scalar: &TypedScalar<'_>) -> ParsedScalar {
    match (scalar.quoted, scalar::parse_bool(scalar.text)) {
        (false, Some(value)) => Ok(Value::Bool(value)),
        _ => Err(Box::new(build_not_a_bool_diag(scalar.node, &quote_key(scalar.path)))),
    }
}

fn parse_int(scalar: &TypedScalar<'_>, min: i64, max: i64) -> ParsedScalar {
    match scalar::parse_int(scalar.text).filter(|_| !scalar.quoted) {
        Some(number) if (min..=max).contains(&number) => Ok(Value::from(number)),
        Some(number) => Err(Box::new(build_out_of_range_diag(scalar.node, &quote_key(scalar.path), number, min, max))),
        None => Err(Box::new(scalar.build_wrong_type_diag(FieldType::Int { min, max }))),
    }
}

fn parse_version(scalar: &TypedScalar<'_>) -> ParsedScalar {
    match is_version(scalar.text) {
        true => Ok(Value::from(scalar.text)),
        false => Err(Box::new(scalar.build_bad_value_diag("must be a version"))),
    }
}

/// Returns whether `text` is a version. Versions are used in command lines and file names, so only letters, digits and
/// the punctuation of Debian versions are valid.
pub(super) fn is_version(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'~' | b':' | b'_' | b'-');
    text.len() <= 128 && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

fn parse_choice(scalar: &TypedScalar<'_>, known: &[&str]) -> ParsedScalar {
    match known.contains(&scalar.text) {
        true => Ok(Value::from(scalar.text)),
        false => {
            let diag =
                Diag::error(DiagCode::BadValue, format!("`{}` cannot be `{}`", scalar.path, shorten_text(scalar.text)));
            Err(Box::new(diag.with_span(scalar.node.span).suggest_name(scalar.text, known.iter().copied())))
        }
    }
}

fn parse_name(scalar: &TypedScalar<'_>) -> ParsedScalar {
    match scalar::is_name(scalar.text) {
        true => Ok(Value::from(scalar.text)),
        false => Err(Box::new(
            scalar
                .build_bad_value_diag("must be a name")
                .hint("use letters, digits and `_.@:+-`, not starting with `-`"),
        )),
    }
}

fn parse_secret(scalar: &TypedScalar<'_>) -> ParsedScalar {
    match SecretStore::has_placeholder(scalar.text) {
        true => Ok(Value::from(scalar.text)),
        false => {
            let diag =
                Diag::error(DiagCode::BadValue, format!("`{}` is a secret and must not be in plain text", scalar.path));
            let span = scalar.node.span;
            Err(Box::new(diag.with_span(span).hiding(span).hint("pass it as a parameter of type `secret`")))
        }
    }
}

/// Describes the value of `node` for messages about parameters.
pub(super) fn describe_found(node: &YamlNode) -> String {
    describe_node(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::FileId;

    struct Nothing;

    impl FieldFileReader for Nothing {
        fn read_source(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
            Err(Box::new(Diag::error(DiagCode::Unreadable, path.to_owned()).with_span(span)))
        }

        fn locate_file(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
            self.read_source(path, span)
        }

        fn render_template(&self, _: &str, _: Span) -> Result<RenderedFile, Box<Diag>> {
            Ok(RenderedFile::Waits(PendingInput::Facts))
        }
    }

    const INNER: &[FieldSpec] = &[FieldSpec::required("key", FieldType::Line, "")];
    const TABLE: &[FieldSpec] = &[
        FieldSpec::required("path", FieldType::Path, ""),
        FieldSpec::optional("mode", FieldType::Mode, ""),
        FieldSpec::optional("backup", FieldType::Bool, ""),
        FieldSpec::optional("count", FieldType::Int { min: 1, max: 9 }, ""),
        FieldSpec::optional("version", FieldType::Version, ""),
        FieldSpec::optional("wait", FieldType::Duration, ""),
        FieldSpec::optional("state", FieldType::Enum(&["running", "stopped"]), ""),
        FieldSpec::optional("names", FieldType::List(&FieldType::Name), ""),
        FieldSpec::optional("env", FieldType::Map(&FieldType::Text), "").passing_secrets(),
        FieldSpec::optional("inner", FieldType::Table(INNER), ""),
        FieldSpec::optional("password", FieldType::Secret, ""),
        FieldSpec::optional("template", FieldType::LocalFile, ""),
    ];

    fn check_yaml(text: &str) -> CheckedFields {
        let mut diags = Vec::new();
        let node = super::super::yaml::parse(FileId(0), text, &mut diags).unwrap();
        assert!(diags.is_empty(), "{diags:?}");
        check_fields(&node, TABLE, "a thing", false, &Nothing)
    }

    fn collect_messages(text: &str) -> Vec<String> {
        let one = |d: Diag| match d.hint {
            Some(hint) => format!("{} ({hint})", d.message),
            None => d.message,
        };
        check_yaml(text).diags.into_iter().map(one).collect()
    }

    #[test]
    fn values_are_parsed_to_their_types() {
        let text = "{path: /a//b/, mode: \"0644\", backup: true, count: 3, version: 560.10, wait: 10m, state: stopped, names: [a, b], env: {A: 1}, inner: {key: x}}";
        let checked = check_yaml(text);
        assert!(checked.diags.is_empty(), "{:?}", checked.diags);
        let fields = checked.fields;
        assert_eq!(fields.get_text("path"), Some("/a/b"));
        assert_eq!(fields.get_mode("mode"), Some(0o644));
        assert_eq!(
            (fields.get_bool("backup"), fields.get_int("count"), fields.get_int("wait")),
            (Some(true), Some(3), Some(600))
        );
        assert_eq!(fields.get_text("version"), Some("560.10"));
        assert_eq!(fields.get_text_list("names").unwrap(), ["a", "b"]);
        assert_eq!(fields.get_text_map("env").unwrap(), [("A".to_owned(), "1".to_owned())]);
        assert_eq!(fields.0["inner"]["key"], "x");
    }

    #[test]
    fn keys_of_a_nested_map_are_named() {
        assert_eq!(
            collect_messages("{path: /x, inner: x}"),
            ["`inner` must be a map, found the text `x` (its keys are `key`)"]
        );
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let text = "{mode: 0644, backup: yes, count: 12, version: \"1 2\", wait: 30, state: runing, names: a, env: [], inner: {kye: x}, password: hunter2, pth: /x}";
        assert_eq!(
            collect_messages(text),
            [
                "`mode` must be quoted octal text, found 0644 (write `\"0644\"`)",
                "`backup` must be `true` or `false`, found the text `yes` (write `true` without quotes)",
                "`count` must be from 1 to 9, found 12",
                "`version` must be a version, found `1 2`",
                "`wait` must be a duration, found the number `30` (write the unit: `30s` or `30m`)",
                "`state` cannot be `runing` (did you mean `running`?)",
                "`names` must be a list, found the text `a` (write `[a]`)",
                "`env` must be a map, found a list",
                "unknown key `kye` in `inner` (did you mean `key`?)",
                "`password` is a secret and must not be in plain text (pass it as a parameter of type `secret`)",
                "unknown key `pth` in a thing (did you mean `path`?)",
            ]
        );
    }

    #[test]
    fn unsafe_names_and_paths_are_rejected() {
        assert_eq!(collect_messages("{path: etc/x}"), ["`path` must be absolute, found `etc/x`"]);
        assert_eq!(collect_messages("{path: /etc/../x}"), ["`path` must not contain `..`, found `/etc/../x`"]);
        assert_eq!(
            collect_messages("{path: /x, names: [-rf]}"),
            ["`names[0]` must be a name, found `-rf` (use letters, digits and `_.@:+-`, not starting with `-`)"]
        );
    }

    #[test]
    fn secrets_are_refused_except_where_the_kind_gets_them() {
        let held = SecretStore::default().reserve("S").0;
        let mut diags = Vec::new();
        let text = "{path: /etc/TOKEN.conf, mode: TOKEN, names: [a, TOKEN], inner: {key: a TOKEN}, template: TOKEN, env: {A: TOKEN}, password: TOKEN}";
        let mut node = super::super::yaml::parse(FileId(0), text, &mut diags).unwrap();
        put_secret(&mut node, &held);
        let checked = check_fields(&node, TABLE, "a thing", false, &Nothing);
        let messages: Vec<&str> = checked.diags.iter().map(|diag| diag.message.as_str()).collect();
        assert_eq!(
            messages,
            ["path", "mode", "names[1]", "inner.key", "template"]
                .map(|path| format!("`{path}` must not contain a secret"))
        );
        assert_eq!(checked.fields.get_text_map("env").unwrap(), [("A".to_owned(), held.clone())]);
        assert_eq!(checked.fields.get_text("password"), Some(held.as_str()));
        let explained = check_fields(&node, TABLE, "a thing", true, &Nothing);
        assert!(!explained.diags.iter().any(|diag| diag.message.starts_with("`inner.key`")), "the kind explains it");
    }

    fn put_secret(node: &mut YamlNode, held: &str) {
        match &mut node.data {
            YamlData::Scalar { text, .. } => *text = text.replace("TOKEN", held),
            YamlData::Seq(items) => items.iter_mut().for_each(|item| put_secret(item, held)),
            YamlData::Map(entries) => entries.iter_mut().for_each(|(_, item)| put_secret(item, held)),
            _ => {}
        }
    }

    #[test]
    fn deferred_field_names_its_pending_input() {
        let checked = check_yaml("{path: /x, template: a.conf}");
        assert_eq!(checked.deferred, [("template".to_owned(), PendingInput::Facts)]);
        assert!(checked.diags.is_empty());
    }
}
