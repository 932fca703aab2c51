//! `nvidia-smi -q -x`: the same listing as `-q`, in the format that stays stable between branches.

use super::nvidia_smi::{SmiGpu, SmiListing, normalize_bdf};
use super::nvidia_version::is_version;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

const ROOT: &str = "nvidia_smi_log";

/// Parses the document; `None` if it is cut off or no well-formed XML. Warnings before and after it are skipped.
pub fn parse_nvidia_smi_xml(text: &str) -> Option<SmiListing> {
    let end = format!("</{ROOT}>");
    let document = &text[text.find(&format!("<{ROOT}>"))?..text.rfind(&end)? + end.len()];
    let mut reader = Reader::from_str(document);
    reader.config_mut().trim_text(true);
    let mut listing = SmiListing::default();
    let mut path = ElementPath::default();
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => path.enter(&element, &mut listing),
            Event::Empty(element) => {
                path.enter(&element, &mut listing);
                path.leave(&mut listing);
            }
            Event::Text(text) => path.text.push_str(&text.xml_content(XmlVersion::Implicit1_0)),
            Event::End(_) => path.leave(&mut listing),
            Event::Eof => return path.names.is_empty().then_some(listing),
            _ => {}
        }
    }
}

/// The elements that are open, and the text of the innermost one.
#[derive(Default)]
struct ElementPath {
    names: Vec<String>,
    text: String,
    /// Whether the innermost element had a child: then it has no value of its own.
    has_child: bool,
}

impl ElementPath {
    fn enter(&mut self, element: &BytesStart<'_>, listing: &mut SmiListing) {
        let name = element.name().as_ref().to_owned();
        if self.names.len() == 1 && name == "gpu" {
            let id = element.try_get_attribute("id").ok().flatten();
            listing.gpus.push(SmiGpu::new(normalize_bdf(id.as_ref().map_or("", |id| &id.value))));
        }
        self.names.push(name);
        self.text.clear();
        self.has_child = false;
    }

    fn leave(&mut self, listing: &mut SmiListing) {
        if !self.has_child {
            self.record_value(listing);
        }
        self.names.pop();
        self.text.clear();
        self.has_child = true;
    }

    fn record_value(&self, listing: &mut SmiListing) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        match &names[..] {
            [_, "driver_version"] => listing.driver = Some(self.text.clone()).filter(|text| is_version(text)),
            [_, "gpu", inner @ ..] if !inner.is_empty() => {
                if let Some(gpu) = listing.gpus.last_mut() {
                    gpu.insert_value(inner.join(" / "), &self.text);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::command::nvidia_smi::SmiCell;

    const B200: &str = include_str!("../../../tests/samples/nvidia-smi-qx-b200.xml");

    #[test]
    fn elements_are_found_by_their_path() {
        let listing = parse_nvidia_smi_xml(B200).expect("is a document");
        assert_eq!(listing.driver.as_deref(), Some("580.105.08"));
        let gpus: Vec<&str> = listing.gpus.iter().map(|gpu| gpu.bdf.as_str()).collect();
        assert_eq!(gpus, ["0000:8f:00.0"]);
        let gpu = &listing.gpus[0];
        assert_eq!(gpu.cell_at("product_name"), SmiCell::Value("NVIDIA B200"));
        assert_eq!(gpu.cell_at("fabric / health / summary"), SmiCell::Value("Healthy"));
        assert_eq!(gpu.cell_at("fabric / health / bandwidth"), SmiCell::Absent);
        assert_eq!(gpu.cell_at("mig_devices"), SmiCell::Value("None"));
        assert_eq!(gpu.cell_at("fabric"), SmiCell::Missing, "an element with children has no value");
        assert_eq!(gpu.cell_at("fabric / health / state"), SmiCell::Missing);
    }

    #[test]
    fn warnings_around_the_document_are_skipped_and_a_cut_document_is_rejected() {
        // origin: reconstructed, after the warning that `nvidia-smi` prints with status 14
        let warned = format!("{B200}WARNING: infoROM is corrupted at gpu 0000:8F:00.0\n");
        assert_eq!(parse_nvidia_smi_xml(&warned), parse_nvidia_smi_xml(B200));
        let half = &B200[..B200.len() / 2];
        assert_eq!(parse_nvidia_smi_xml(half), None);
        assert_eq!(parse_nvidia_smi_xml(&format!("{half}</{ROOT}>")), None, "elements are still open");
        assert_eq!(parse_nvidia_smi_xml("No devices were found\n"), None);
    }
}
