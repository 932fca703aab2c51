//! The JSON data of the page: the hosts of each entry, which the text shows folded.

use crate::drift::DriftReport;
use crate::model::HostName;
use crate::view::json::to_compact_json;
use serde::Serialize;
use std::collections::HashMap;
use std::io;

/// The data for the script. Entries have the order of the elements of class `e`.
#[derive(Serialize)]
pub struct PageData<'a> {
    hosts: Vec<&'a str>,
    /// The recipes of the table's columns.
    recipes: Vec<&'a str>,
    entries: Vec<PageDataEntry<'a>>,
    #[serde(skip)]
    places: HashMap<&'a HostName, usize>,
}

/// One entry of the page.
#[derive(Serialize)]
struct PageDataEntry<'a> {
    /// The hosts of each part as runs of indexes into `hosts`: first and last of each run. The first parts correspond
    /// to the elements of class `v`; later parts were omitted from the page. An entry without such elements is one
    /// part.
    parts: Vec<Vec<usize>>,
    recipe: &'a str,
    severity: &'a str,
    cause: &'a str,
}

impl<'a> PageData<'a> {
    pub fn new(drift: &'a DriftReport) -> Self {
        let hosts = drift.hosts.iter().map(|host| host.host.as_str()).collect();
        let places = drift.hosts.iter().enumerate().map(|(at, host)| (&host.host, at)).collect();
        Self { hosts, recipes: Vec::new(), entries: Vec::new(), places }
    }

    /// Returns the index of a host.
    pub fn host_index(&self, host: &HostName) -> Option<usize> {
        self.places.get(host).copied()
    }

    /// Sets the columns of the table.
    pub fn set_columns(&mut self, recipes: impl IntoIterator<Item = &'a str>) {
        self.recipes = recipes.into_iter().collect();
    }

    /// Adds an entry with the hosts of each of its parts. `recipe` and `cause` are empty if there is none.
    pub fn push(&mut self, parts: &[Vec<&HostName>], recipe: &'a str, severity: &'a str, cause: &'a str) {
        let part = |hosts: &Vec<&HostName>| {
            let mut places: Vec<usize> = hosts.iter().filter_map(|host| self.host_index(host)).collect();
            places.sort_unstable();
            encode_runs(&places)
        };
        let parts = parts.iter().map(part).collect();
        self.entries.push(PageDataEntry { parts, recipe, severity, cause });
    }

    /// Returns the data as JSON without `<`, so that no text ends the enclosing element.
    ///
    /// # Errors
    /// Never: text and numbers serialize.
    pub fn to_json(&self) -> io::Result<String> {
        // `<` only occurs in strings, where the escape is equivalent.
        Ok(to_compact_json(self)?.replace('<', "\\u003c"))
    }
}

/// Returns the first and last number of each run of consecutive numbers. `places` is ascending.
fn encode_runs(places: &[usize]) -> Vec<usize> {
    let mut runs: Vec<usize> = Vec::new();
    for &place in places {
        match runs.last_mut() {
            Some(last) if place <= *last + 1 => *last = place,
            _ => runs.extend([place, place]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn adjacent_indexes_are_encoded_as_one_run() {
        assert_eq!(encode_runs(&[0, 1, 2, 5, 7, 8]), [0, 2, 5, 5, 7, 8]);
        assert_eq!(encode_runs(&[]), [0; 0]);
    }

    #[test]
    fn page_data_cannot_close_the_script_element() {
        let mut drift = sample::drift(&["a</script><!--"], Vec::new());
        drift.hosts[0].settled = 1;
        let text = PageData::new(&drift).to_json().unwrap();
        assert!(!text.contains('<'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["hosts"][0], "a</script><!--");
    }
}
