//! The reference page of a kind, generated from its table of fields.

use super::{Field, Kind, Type};
use std::fmt::Write;

/// Returns the page as Markdown: summary, an example, behaviour, a table of fields.
pub fn markdown(kind: &Kind) -> String {
    let Kind { name, summary, example, doc, .. } = kind;
    let mut page = format!("# `{name}`\n\n{summary}\n\n```yaml\n{example}```\n\n{doc}\n\n## Fields\n\n");
    table(&mut page, kind.fields);
    for (field, inner) in kind.fields.iter().filter_map(|f| inner(&f.ty).map(|inner| (f, inner))) {
        let _ = writeln!(page, "\n### Inside `{}`\n", field.name);
        table(&mut page, inner);
    }
    page
}

fn table(page: &mut String, fields: &[Field]) {
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for field in fields {
        let required = if field.required { ", required" } else { "" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "| `{}` | {}{required} | {} |", field.name, words(&field.ty), cell(field.doc));
    }
}

/// Escapes a cell: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn inner(ty: &Type) -> Option<&'static [Field]> {
    match ty {
        Type::Table(fields) => Some(fields),
        _ => None,
    }
}

fn words(ty: &Type) -> String {
    match ty {
        Type::Text => "text".into(),
        Type::Line => "one line of text".into(),
        Type::Path => "absolute path".into(),
        Type::LocalFile => "file of the inventory's tree".into(),
        Type::LocalPath => "file of the inventory's tree, any size".into(),
        Type::LocalDocuments => "YAML file of the inventory's tree".into(),
        Type::Mode => "octal text".into(),
        Type::Bool => "`true` or `false`".into(),
        Type::Int { min, max } => format!("whole number, {min} to {max}"),
        Type::Version => "version".into(),
        Type::Duration | Type::Wait => "duration (`30s`, `10m`, `4h`)".into(),
        Type::Enum(values) => values.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(" or "),
        Type::List(item) => format!("list of {}", words(item)),
        Type::Map(value) => format!("map of {}", words(value)),
        Type::Secret => "secret".into(),
        Type::Name => "name".into(),
        Type::Any => "any value".into(),
        Type::Table(_) => "table, see below".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_row_for_each_field() {
        let page = markdown(super::super::kind("unit").unwrap());
        assert!(page.starts_with("# `unit`\n\nA systemd unit file or a drop-in"), "{page}");
        assert!(page.contains("| `name` | name, required | Name of the unit; the default type is `.service`. |\n"));
        assert!(page.contains("### Inside `drop_in`\n\n| field"));
    }
}
