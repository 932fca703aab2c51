//! Parses YAML text into a [`YamlNode`] tree with places. No other module calls a YAML parser.
//!
//! It reads the events of serde-saphyr's parser instead of using its deserializer, for three reasons: plain scalars
//! keep their text as typed (`560.10`), quoted scalars are distinguished from plain ones, and every duplicate key of a
//! file is reported with both places.

use super::yaml_node::{OBJECT_FILE_HINT, find_object_key};
use super::yaml_slips::find_yaml_slip;
use super::{YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, FileId, Span};
use serde_saphyr::granit_parser as yaml;
use std::collections::HashMap;
use yaml::{Event, Parser, ScalarStyle};

/// Maximum number of nodes in a file, far above an inventory of 10,000 hosts.
const MAX_NODES: usize = 2_000_000;
/// Maximum number of nodes that anchors and aliases of a file may copy. Long texts count by their length.
const MAX_COPIED: usize = 400_000;
/// Bytes of text that count as a node.
const TEXT_PER_NODE: usize = 128;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// Parses one document. Never panics. Adds errors to `diags` and returns `None` only if the text is not valid YAML. An
/// empty file is a null node.
pub fn parse(file: FileId, text: &str, diags: &mut Vec<Diag>) -> Option<YamlNode> {
    let (node, tags) = parse_with_tags(file, text, diags);
    diags.extend(tags.into_iter().map(|(span, tag)| {
        Diag::error(DiagCode::BadValue, format!("the tag `{tag}` is not supported")).with_span(span)
    }));
    node
}

/// Like [`parse`], but returns the tags that are not supported, with the places of their values, instead of adding
/// errors about them.
pub fn parse_with_tags(file: FileId, text: &str, diags: &mut Vec<Diag>) -> (Option<YamlNode>, Vec<(Span, String)>) {
    let options = yaml::options! { disallow_directives: true };
    let parser = Parser::new_from_str_with_options(text, options);
    let (size, anchors, tags) = (text.len(), HashMap::new(), Vec::new());
    let mut reader = YamlReader { file, text, size, parser, anchors, nodes: 0, copied: 0, tags, diags };
    let node = match reader.read_document() {
        Ok(node) => Some(node),
        Err(diag) => {
            reader.diags.push(*diag);
            None
        }
    };
    (node, reader.tags)
}

type YamlResult<T> = Result<T, Box<Diag>>;

struct YamlReader<'t, 'd> {
    file: FileId,
    text: &'t str,
    size: usize,
    parser: Parser<'t, yaml::StrInput<'t>>,
    anchors: HashMap<usize, (YamlNode, usize)>,
    nodes: usize,
    copied: usize,
    /// Tags that are not supported, with the places of their values.
    tags: Vec<(Span, String)>,
    diags: &'d mut Vec<Diag>,
}

impl<'t> YamlReader<'t, '_> {
    fn read_document(&mut self) -> YamlResult<YamlNode> {
        let mut root = None;
        loop {
            let (event, span) = self.next_event()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    let hint = match root.as_ref().and_then(find_object_key) {
                        Some(_) => OBJECT_FILE_HINT,
                        None => "move it to a separate file",
                    };
                    return Err(self.build_diag(span, "a second document starts here").hint_boxed(hint));
                }
                Event::DocumentStart(..) => {}
                Event::StreamEnd => return Ok(root.unwrap_or_else(|| self.empty_node())),
                event => root = Some(self.read_node(event, span, 0)?),
            }
        }
    }

    fn empty_node(&self) -> YamlNode {
        YamlNode { span: Span { file: self.file, start: 0, end: 0 }, data: YamlData::Null }
    }

    /// Returns the next event that is not a comment.
    fn next_event(&mut self) -> YamlResult<(Event<'t>, Span)> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => return Ok((event, self.convert_span(&span))),
                Some(Err(error)) => return Err(self.build_syntax_diag(&error)),
                None => return Ok((Event::StreamEnd, self.point_span(self.size))),
            }
        }
    }

    fn read_node(&mut self, event: Event<'t>, span: Span, depth: usize) -> YamlResult<YamlNode> {
        self.count_nodes(1, span)?;
        if depth > MAX_DEPTH {
            return Err(self.build_diag(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (self.read_scalar(&text, style, tag.as_deref(), span), anchor),
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "seq", span);
                (self.read_sequence(span, depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "map", span);
                (self.read_mapping(span, depth)?, anchor)
            }
            Event::Alias(id) => return self.resolve_alias(id, span),
            _ => return Err(self.build_diag(span, "missing value")),
        };
        if anchor != 0 {
            let size = count_tree_nodes(&node);
            self.count_copied(size, span)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn resolve_alias(&mut self, id: usize, span: Span) -> YamlResult<YamlNode> {
        let Some(size) = self.anchors.get(&id).map(|(_, size)| *size) else {
            return Err(self.build_diag(span, "an alias refers to the value that contains it"));
        };
        self.count_copied(size, span)?;
        let data = self.anchors.get(&id).map_or(YamlData::Null, |(node, _)| node.data.clone());
        Ok(YamlNode { span, data })
    }

    /// Counts copied nodes before they are copied.
    fn count_copied(&mut self, nodes: usize, span: Span) -> YamlResult<()> {
        self.copied += nodes;
        match self.copied > MAX_COPIED {
            true => Err(self
                .build_diag(span, format!("anchors and aliases copy more than {MAX_COPIED} values"))
                .hint_boxed("move shared values to `vars` of a group")),
            false => Ok(()),
        }
    }

    fn count_nodes(&mut self, nodes: usize, span: Span) -> YamlResult<()> {
        self.nodes += nodes;
        match self.nodes > MAX_NODES {
            true => Err(self.build_diag(span, format!("the file contains more than {MAX_NODES} values"))),
            false => Ok(()),
        }
    }

    fn read_scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&yaml::Tag>, span: Span) -> YamlNode {
        self.refuse_tag(tag, "str", span);
        if let Some(bad) = text.chars().find(|c| is_forbidden(*c)) {
            let message = format!("text contains the character U+{:04X}, which forge does not support", bad as u32);
            self.diags.push(Diag::error(DiagCode::ForbiddenCharacter, message).with_span(span));
        }
        let quoted = style != ScalarStyle::Plain || tag.is_some();
        let data = match !quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
            true => YamlData::Null,
            false => YamlData::Scalar { text: text.to_owned(), quoted },
        };
        YamlNode { span, data }
    }

    /// Notes a tag, except the one of the node's own type: other tags would change a value in ways that forge's
    /// grammar does not define.
    fn refuse_tag(&mut self, tag: Option<&yaml::Tag>, allowed: &str, span: Span) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema_tag(allowed)) {
            self.tags.push((span, tag.original().to_string()));
        }
    }

    fn read_sequence(&mut self, start: Span, depth: usize) -> YamlResult<YamlNode> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next_event()?;
            if matches!(event, Event::SequenceEnd) {
                let span = close_span(start, items.last().map(|node: &YamlNode| node.span), span);
                return Ok(YamlNode { span, data: YamlData::Seq(items) });
            }
            items.push(self.read_node(event, span, depth + 1)?);
        }
    }

    fn read_mapping(&mut self, start: Span, depth: usize) -> YamlResult<YamlNode> {
        let mut map = MappingBuilder::default();
        loop {
            let (event, span) = self.next_event()?;
            if matches!(event, Event::MappingEnd) {
                let last = map.entries.last().map(|(_, node)| node.span);
                let span = close_span(start, last, span);
                return Ok(YamlNode { span, data: YamlData::Map(map.finish()) });
            }
            let key = self.read_key(event, span, depth)?;
            let (event, span) = self.next_event()?;
            let value = self.read_node(event, span, depth + 1)?;
            match key {
                Some(key) if key.text == "<<" => self.merge_entries(&mut map, value),
                Some(key) => self.insert_entry(&mut map, key, value),
                None => {}
            }
        }
    }

    fn read_key(&mut self, event: Event<'t>, span: Span, depth: usize) -> YamlResult<Option<YamlKey>> {
        if let Event::Scalar(text, style, anchor, tag) = event {
            let node = self.read_scalar(&text, style, tag.as_deref(), span);
            if anchor != 0 {
                self.count_copied(1 + text.len() / TEXT_PER_NODE, span)?;
                self.anchors.insert(anchor, (node, 1 + text.len() / TEXT_PER_NODE));
            }
            return Ok(Some(YamlKey { text: text.into_owned(), span }));
        }
        let node = self.read_node(event, span, depth + 1)?;
        if let YamlData::Scalar { text, .. } = node.data {
            return Ok(Some(YamlKey { text, span }));
        }
        let diag = Diag::error(DiagCode::WrongType, "a key must be text").with_span(span);
        self.diags.push(diag.hint("quote a value that starts with `{{`"));
        Ok(None)
    }

    fn insert_entry(&mut self, map: &mut MappingBuilder, key: YamlKey, value: YamlNode) {
        match map.seen.get(&key.text) {
            Some(&first) => {
                let first = map.entries[first].0.span;
                let diag =
                    Diag::error(DiagCode::Duplicate, format!("duplicate key `{}`", key.text)).with_span(key.span);
                self.diags.push(diag.label("defined again here").with_other_span(first, "first defined here"));
            }
            None => {
                map.seen.insert(key.text.clone(), map.entries.len());
                map.entries.push((key, value));
            }
        }
    }

    /// Merges `<<: *defaults`. Keys of the map itself take precedence, then keys of earlier merges.
    fn merge_entries(&mut self, map: &mut MappingBuilder, value: YamlNode) {
        match value.data {
            YamlData::Map(entries) => map.merged.extend(entries),
            YamlData::Seq(nodes) if nodes.iter().all(|node| matches!(node.data, YamlData::Map(_))) => {
                nodes.into_iter().for_each(|node| self.merge_entries(map, node));
            }
            _ => self
                .diags
                .push(Diag::error(DiagCode::WrongType, "`<<` must be a map or a list of maps").with_span(value.span)),
        }
    }

    fn convert_span(&self, span: &yaml::Span) -> Span {
        let range = span.byte_range().unwrap_or(0..0);
        let clamp = |at: usize| at.min(self.size) as u32;
        Span { file: self.file, start: clamp(range.start), end: clamp(range.end.max(range.start)) }
    }

    fn point_span(&self, offset: usize) -> Span {
        let at = offset.min(self.size) as u32;
        Span { file: self.file, start: at, end: at }
    }

    fn build_diag(&self, span: Span, message: impl Into<String>) -> Box<Diag> {
        Box::new(Diag::error(DiagCode::Yaml, message).with_span(span))
    }

    fn build_syntax_diag(&self, error: &yaml::ScanError) -> Box<Diag> {
        let offset = error.marker().byte_offset().unwrap_or(self.size);
        let slip = find_yaml_slip(self.text, offset, error.kind());
        let place = slip.as_ref().and_then(|slip| slip.offset).unwrap_or(offset);
        let diag = self.build_diag(self.point_span(place), error.kind().to_string());
        match slip {
            Some(slip) => diag.hint_boxed(&slip.hint),
            None => diag,
        }
    }
}

/// Adds a hint to a boxed diagnostic.
trait HintBoxed {
    fn hint_boxed(self, hint: &str) -> Self;
}

impl HintBoxed for Box<Diag> {
    fn hint_boxed(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }
}

/// A mapping that is being parsed.
#[derive(Default)]
struct MappingBuilder {
    entries: Vec<(YamlKey, YamlNode)>,
    seen: HashMap<String, usize>,
    merged: Vec<(YamlKey, YamlNode)>,
}

impl MappingBuilder {
    fn finish(mut self) -> Vec<(YamlKey, YamlNode)> {
        for (key, value) in self.merged {
            if !self.seen.contains_key(&key.text) {
                self.seen.insert(key.text.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
        self.entries
    }
}

/// Returns the span of a collection, from its start to its closing bracket or to the end of its last item. The parser's
/// own end of a block collection is at the next token, which may be lines below.
fn close_span(start: Span, last: Option<Span>, end: Span) -> Span {
    let bracket = end.end > end.start;
    let until = if bracket { end.end } else { last.map_or(start.end, |span| span.end) };
    Span { end: until.max(start.end), ..start }
}

fn count_tree_nodes(node: &YamlNode) -> usize {
    match &node.data {
        YamlData::Seq(items) => 1 + items.iter().map(count_tree_nodes).sum::<usize>(),
        YamlData::Map(entries) => {
            1 + entries
                .iter()
                .map(|(key, node)| 1 + key.text.len() / TEXT_PER_NODE + count_tree_nodes(node))
                .sum::<usize>()
        }
        YamlData::Scalar { text, .. } => 1 + text.len() / TEXT_PER_NODE,
        _ => 1,
    }
}

/// Returns whether a character is forbidden: NUL cannot be sent to a host, and the two others delimit placeholders of
/// secrets.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0' | '\u{e000}' | '\u{e001}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cpu_time::thread_cpu_time;
    use proptest::prelude::*;

    fn parse_text(text: &str) -> (Option<YamlNode>, Vec<Diag>) {
        let mut diags = Vec::new();
        let node = parse(FileId(0), text, &mut diags);
        (node, diags)
    }

    fn expect_entries_of(node: &YamlNode) -> &[(YamlKey, YamlNode)] {
        match &node.data {
            YamlData::Map(entries) => entries,
            other => panic!("not a map: {other:?}"),
        }
    }

    fn text_at(text: &str, span: Span) -> &str {
        &text[span.start as usize..span.end as usize]
    }

    #[test]
    fn plain_scalars_keep_their_text() {
        let text = "version: 560.10\nmode: 0644\ngsp: off\nname: \"on\"\nnone: ~\n";
        let (node, diags) = parse_text(text);
        assert!(diags.is_empty(), "{diags:?}");
        let node = node.unwrap();
        let scalars: Vec<_> = expect_entries_of(&node).iter().map(|(_, node)| node.data.clone()).collect();
        let plain = |text: &str| YamlData::Scalar { text: text.into(), quoted: false };
        let quoted = YamlData::Scalar { text: "on".into(), quoted: true };
        assert_eq!(scalars, [plain("560.10"), plain("0644"), plain("off"), quoted, YamlData::Null]);
    }

    #[test]
    fn spans_are_exact_after_wide_characters() {
        let text = "ü: 'é'\nlist:\n  - {a: b}\n  - |\n    block\nend: 1\n";
        let (node, _) = parse_text(text);
        let node = node.unwrap();
        let spans: Vec<_> = expect_entries_of(&node)
            .iter()
            .map(|(key, node)| (text_at(text, key.span), text_at(text, node.span)))
            .collect();
        assert_eq!(spans[0], ("ü", "'é'"));
        assert!(spans[1].1.starts_with("- {a: b}\n  - |\n    block"), "{:?}", spans[1].1);
        assert_eq!(spans[2], ("end", "1"));
    }

    #[test]
    fn every_duplicate_key_is_reported_with_both_locations() {
        let text = "a: 1\nb: {x: 1, x: 2}\na: 3\n\"a\": 4\n";
        let (node, diags) = parse_text(text);
        assert!(node.is_some());
        let found: Vec<_> =
            diags.iter().map(|d| (d.message.as_str(), d.span.unwrap().start, d.others[0].0.start)).collect();
        assert_eq!(found, [("duplicate key `x`", 15, 9), ("duplicate key `a`", 21, 0), ("duplicate key `a`", 26, 0)]);
    }

    #[test]
    fn anchors_and_merge_keys_are_expanded() {
        let (node, diags) = parse_text("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\n");
        assert!(diags.is_empty(), "{diags:?}");
        let node = node.unwrap();
        let used: Vec<_> =
            expect_entries_of(&expect_entries_of(&node)[1].1).iter().map(|(key, _)| key.text.clone()).collect();
        assert_eq!(used, ["y", "x"]);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
        for level in 1..9 {
            let alias = vec![format!("*a{}", level - 1); 10].join(",");
            text.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        let (node, diags) = parse_text(&text);
        assert!(node.is_none());
        assert_eq!(diags[0].message, "anchors and aliases copy more than 400000 values");
    }

    #[test]
    fn alias_expansion_is_limited_in_time_and_memory() {
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 1000].join(","));
        let merged = format!("a: &a {{{}}}\nb: [{}]\n", letter_entries(), vec!["{<<: *a}"; 50_000].join(","));
        let nested = format!("a: {}[{}]{}\n", "&a [".repeat(60), vec!["1"; 50_000].join(","), "]".repeat(60));
        let key = format!("? &a {}\n: [{}]\n", "x".repeat(900), vec!["*a"; 60_000].join(","));
        for (name, text) in [("long", long), ("merged", merged), ("nested", nested), ("key", key)] {
            let begun = thread_cpu_time();
            let mut message = String::new();
            let used = allocation_counter::measure(|| {
                let (node, diags) = parse_text(&text);
                assert!(node.is_none(), "{name}");
                message = diags[0].message.clone();
            });
            assert_eq!(message, "anchors and aliases copy more than 400000 values", "{name}");
            assert!(used.bytes_max < 150 << 20, "{name}: {} bytes", used.bytes_max);
            let took = thread_cpu_time() - begun;
            assert!(took.as_secs() < 10, "{name}: {took:?}");
        }
    }

    fn letter_entries() -> String {
        ('a'..='z').map(|letter| format!("{letter}: 1")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn reserved_characters_are_rejected() {
        let (_, diags) = parse_text("a: \"x\\uE000y\"\nb: \"\\0\"\n");
        let messages: Vec<_> = diags.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "text contains the character U+E000, which forge does not support",
                "text contains the character U+0000, which forge does not support"
            ]
        );
    }

    #[test]
    fn syntax_error_has_a_location() {
        let (node, diags) = parse_text("a: [1,\nb: 2\n");
        assert!(node.is_none());
        assert_eq!(diags[0].code, DiagCode::Yaml);
        assert!(diags[0].span.unwrap().start > 0);
    }

    #[test]
    fn a_key_without_a_blank_after_its_colon_gets_a_hint() {
        let (node, diags) = parse_text("cluster:lab\nhosts: { n1: {} }\n");
        assert!(node.is_none());
        assert_eq!(diags[0].hint.as_deref(), Some("a colon needs a blank after it: `cluster: lab`"));
        let (_, diags) = parse_text("a: http://x\nb: [1\n");
        assert_eq!(diags[0].hint.as_deref(), None);
    }

    #[test]
    fn an_unquoted_range_in_braces_gets_a_hint() {
        let (_, diags) = parse_text("hosts:\n  n[1:2]: { address: 10.0.0.[1:2] }\n");
        assert_eq!(diags[0].hint.as_deref(), Some("quote a range inside `{ }`: `\"…[1:2]\"`"));
        let (node, diags) = parse_text("hosts:\n  n[1:2]: { address: \"10.0.0.[1:2]\" }\n");
        assert!(node.is_some() && diags.is_empty());
    }

    #[test]
    fn an_unquoted_template_gets_a_hint() {
        let (_, diags) = parse_text("path: {{ params.x }}\n");
        assert_eq!(diags[0].message, "a key must be text");
        assert_eq!(diags[0].hint.as_deref(), Some("quote a value that starts with `{{`"));
    }

    #[test]
    fn tags_and_second_documents_are_refused() {
        let (_, diags) = parse_text("a: !!binary aGk=\nb: !!str 1\n");
        assert_eq!(diags.len(), 1);
        assert_eq!(diags[0].message, "the tag `!!binary` is not supported");
        let (_, diags) = parse_text("a: 1\n---\nb: 2\n");
        assert_eq!(diags[0].message, "a second document starts here");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn parser_never_panics(text in r#"[\[\]{}:,&*a-c<!|>'"\\ \n\t#%\-0-9ü]{0,60}|\PC{0,40}"#) {
            let (node, _) = parse_text(&text);
            if let Some(node) = node {
                check_spans(&text, &node);
            }
        }
    }

    fn check_spans(text: &str, node: &YamlNode) {
        assert!(text.get(node.span.start as usize..node.span.end as usize).is_some(), "{:?} in {text:?}", node.span);
        match &node.data {
            YamlData::Seq(items) => items.iter().for_each(|item| check_spans(text, item)),
            YamlData::Map(entries) => entries.iter().for_each(|(_, node)| check_spans(text, node)),
            _ => {}
        }
    }
}
