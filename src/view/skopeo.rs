//! The container images of a plan as a source file of `skopeo sync`.
//!
//! The format is that of skopeo-sync(1): per registry the images with their tags or digests. Without `--scoped`, skopeo
//! copies each image to `DESTINATION/NAME:TAG`, where the recipes expect it in a mirror.

use crate::object::{ImageName, find_mirror};
use crate::plan::PlanImages;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

type ImagesByRegistry = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Writes the images that a mirror must contain, each with the registry that it comes from.
pub fn write_sync_file(images: &PlanImages, out: &mut dyn Write) -> io::Result<()> {
    let mut registries = ImagesByRegistry::new();
    let (mut mirrors, mut comments) = (BTreeSet::new(), BTreeSet::new());
    for image in images.images.keys() {
        let source = images.sources.get(image).unwrap_or(image);
        let name = ImageName::parse(source);
        match &name.reference {
            Some(reference) => {
                let paths = registries.entry(name.registry.clone()).or_default();
                paths.entry(name.path.clone()).or_default().insert(reference.clone());
            }
            // skopeo would copy all of its tags.
            None => {
                comments.insert(format!("not listed, because it has no tag: {source}"));
            }
        }
        if source != image {
            match find_mirror(image, source) {
                Some(mirror) => mirrors.insert(mirror),
                None => comments.insert(format!("the cluster pulls {source} as {image}")),
            };
        }
    }
    writeln!(out, "# skopeo sync --src yaml --dest docker --all FILE MIRROR")?;
    mirrors.iter().try_for_each(|mirror| writeln!(out, "# MIRROR: {}", one_line(mirror)))?;
    comments.iter().try_for_each(|comment| writeln!(out, "# {}", one_line(comment)))?;
    registries.iter().try_for_each(|(registry, paths)| write_registry(registry, paths, out))
}

fn write_registry(registry: &str, paths: &BTreeMap<String, BTreeSet<String>>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}:\n  images:", quote(registry))?;
    for (path, references) in paths {
        let references: Vec<String> = references.iter().map(|reference| quote(reference)).collect();
        writeln!(out, "    {}: [{}]", quote(path), references.join(", "))?;
    }
    Ok(())
}

/// Quotes text: a JSON string is a YAML one.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns text without line breaks, for a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_grouped_by_the_registry_that_they_come_from() {
        let names = [
            "mirror.example/nvidia/dcgm:4.5.2",
            "mirror.example/nvidia/driver:1",
            "volcanosh/vc:v1",
            "nvcr.io/a/b@sha256:00",
            "nvcr.io/a/b:1",
            "r.example/loose",
        ];
        let sources = [
            ("mirror.example/nvidia/dcgm:4.5.2", "nvcr.io/nvidia/cloud-native/dcgm:4.5.2"),
            ("mirror.example/nvidia/driver:1", "nvcr.io/nvidia/driver:2"),
        ];
        let images = PlanImages {
            images: names.map(|name| (name.to_owned(), BTreeSet::new())).into(),
            sources: sources.map(|(image, source)| (image.to_owned(), source.to_owned())).into(),
            ..PlanImages::default()
        };
        let mut out = Vec::new();
        write_sync_file(&images, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        # skopeo sync --src yaml --dest docker --all FILE MIRROR
        # MIRROR: mirror.example/nvidia
        # not listed, because it has no tag: r.example/loose
        # the cluster pulls nvcr.io/nvidia/driver:2 as mirror.example/nvidia/driver:1
        "docker.io":
          images:
            "volcanosh/vc": ["v1"]
        "nvcr.io":
          images:
            "a/b": ["1", "sha256:00"]
            "nvidia/cloud-native/dcgm": ["4.5.2"]
            "nvidia/driver": ["2"]
        "#);
    }
}
