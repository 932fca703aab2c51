//! The reference page of a kind, generated from its table of fields.

use crate::resource::{FieldSpec, FieldType, ResourceKind};
use std::fmt::Write;

/// Returns the page as Markdown: summary, an example, behaviour, a table of fields.
pub fn render_kind_page(kind: &ResourceKind) -> String {
    let ResourceKind { name, summary, example, doc, .. } = kind;
    let mut page = format!("# `{name}`\n\n{summary}\n\n```yaml\n{example}```\n\n{doc}\n\n## Fields\n\n");
    render_field_table(&mut page, kind.fields);
    for (field, inner) in kind.fields.iter().filter_map(|f| nested_fields(&f.ty).map(|inner| (f, inner))) {
        let _ = writeln!(page, "\n### Inside `{}`\n", field.name);
        render_field_table(&mut page, inner);
    }
    page
}

fn render_field_table(page: &mut String, fields: &[FieldSpec]) {
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for field in fields {
        let required = if field.required { ", required" } else { "" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | {}{required} | {} |",
            field.name,
            describe_type(&field.ty),
            escape_cell(field.doc)
        );
    }
}

/// Escapes a cell: a bar would end it.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn nested_fields(ty: &FieldType) -> Option<&'static [FieldSpec]> {
    match ty {
        FieldType::Table(fields) => Some(fields),
        _ => None,
    }
}

fn describe_type(ty: &FieldType) -> String {
    match ty {
        FieldType::Text => "text".into(),
        FieldType::Line => "one line of text".into(),
        FieldType::Path => "absolute path".into(),
        FieldType::LocalFile => "file of the inventory's tree, relative to the recipe".into(),
        FieldType::LocalPath => "file of the inventory's tree, relative to the recipe, any size".into(),
        FieldType::LocalDocuments => "YAML file of the inventory's tree, relative to the recipe".into(),
        FieldType::Mode => "octal text".into(),
        FieldType::Bool => "`true` or `false`".into(),
        FieldType::Int { min, max } => format!("whole number, {min} to {max}"),
        FieldType::Version => "version".into(),
        FieldType::Duration | FieldType::Wait => "duration (`30s`, `10m`, `4h`)".into(),
        FieldType::Enum(values) => values.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(" or "),
        FieldType::List(item) => format!("list of {}", describe_type(item)),
        FieldType::Map(value) => format!("map of {}", describe_type(value)),
        FieldType::Secret => "secret".into(),
        FieldType::Name => "name".into(),
        FieldType::Any => "any value".into(),
        FieldType::Table(_) => "table, see below".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_page_has_a_row_for_each_field() {
        let page = render_kind_page(crate::resource::find_kind("unit").unwrap());
        assert!(page.starts_with("# `unit`\n\nA systemd unit file or a drop-in"), "{page}");
        assert!(page.contains("| `name` | name, required | Name of the unit; the default type is `.service`. |\n"));
        assert!(page.contains("### Inside `drop_in`\n\n| field"));
    }
}
