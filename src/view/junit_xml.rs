//! Elements of JUnit XML that every report writes.

use crate::view::escape;
use quick_xml::events::{BytesDecl, BytesText, Event};
use quick_xml::writer::Writer;
use std::io::{self, Write};

/// A writer of one document.
pub(super) type XmlWriter<'w> = Writer<&'w mut dyn Write>;

/// Returns a writer that has written the declaration.
pub(super) fn start_document(out: &mut dyn Write) -> io::Result<XmlWriter<'_>> {
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    Ok(xml)
}

/// Writes why a test failed.
pub(super) fn write_test_problem(
    element: &str,
    class: &str,
    message: &str,
    body: &str,
    xml: &mut XmlWriter<'_>,
) -> io::Result<()> {
    let lines: Vec<_> = escape::escape_block(body).collect();
    xml.create_element(element)
        .with_attribute(("type", class))
        .with_attribute(("message", &*escape::escape_line(message)))
        .write_text_content(BytesText::new(&lines.join("\n")))?;
    Ok(())
}

/// Writes one line of text.
pub(super) fn write_text_element(xml: &mut XmlWriter<'_>, element: &str, text: &str) -> io::Result<()> {
    xml.create_element(element).write_text_content(BytesText::new(&escape::escape_line(text)))?;
    Ok(())
}
