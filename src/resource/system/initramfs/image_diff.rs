//! What differs in initramfs images: which are rebuilt, and how the content of each differs from the declared one.

use super::declaration::InitramfsResource;
use crate::probe::{EarlyImage, InitramfsMaker, InitramfsState, ModuleInside};
use crate::resource::shared::support::{join_quoted, join_words};
use crate::resource::{AttributeChange, ResourceDiff};
use serde::Serialize;

/// How the images of a host differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum InitramfsDiff {
    /// `maker` rebuilds these images.
    Rebuild { maker: InitramfsMaker, images: Vec<ImageRebuild> },
    /// No program can build an image yet; an earlier step may install one, so the images are not known.
    NoMaker,
}

/// An image that is rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ImageRebuild {
    pub kernel: String,
    pub path: String,
    /// How the existing image differs; `None` if the image does not exist. Nothing differs in an image that is rebuilt
    /// only because an earlier step changes a file in it.
    pub existing: Option<ImageMismatch>,
}

impl ResourceDiff for InitramfsDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Rebuild { images, .. } => images.iter().map(ImageRebuild::render_change).collect(),
            Self::NoMaker => vec![AttributeChange::new("image", None, Some("rebuilt"))],
        }
    }
}

impl InitramfsDiff {
    /// Returns the files and modules that differed in existing images.
    pub fn list_mismatches(&self) -> ImageMismatch {
        let Self::Rebuild { images, .. } = self else { return ImageMismatch::default() };
        let mut all = ImageMismatch::default();
        for found in images.iter().filter_map(|image| image.existing.as_ref()) {
            let pairs =
                [(&mut all.lacks, &found.lacks), (&mut all.outdated, &found.outdated), (&mut all.has, &found.has)];
            for (names, more) in pairs {
                names.extend(more.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
            }
        }
        all
    }

    /// Returns the paths of the images that did not exist before.
    pub fn list_new_images(&self) -> Vec<String> {
        let Self::Rebuild { images, .. } = self else { return Vec::new() };
        images.iter().filter(|image| image.existing.is_none()).map(|image| image.path.clone()).collect()
    }

    /// Returns the paths of the images that existed before: the rebuild keeps a copy of each.
    pub fn list_replaced_images(&self) -> Vec<String> {
        let Self::Rebuild { images, .. } = self else { return Vec::new() };
        images.iter().filter(|image| image.existing.is_some()).map(|image| image.path.clone()).collect()
    }
}

impl ImageRebuild {
    fn render_change(&self) -> AttributeChange {
        let from = if self.existing.is_some() { "outdated" } else { "none" };
        AttributeChange::new(&format!("image {}", self.kernel), Some(from), Some("rebuilt"))
    }

    /// Returns the reason to rebuild the image; `None` if its content matches so far.
    pub fn describe_reason(&self) -> Option<String> {
        match &self.existing {
            None => Some(format!("the image of {} does not exist", self.kernel)),
            Some(content) if content.is_empty() => None,
            Some(content) => Some(format!("the image of {} {}", self.kernel, join_words(&content.describe()))),
        }
    }
}

/// Declared files and modules that an existing image does not hold as declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ImageMismatch {
    /// Missing in the image.
    pub lacks: Vec<String>,
    /// In the image with other content than on the host.
    pub outdated: Vec<String>,
    /// In the image, but declared absent.
    pub has: Vec<String>,
}

impl ImageMismatch {
    /// Compares an existing image with the declaration.
    pub fn compare(want: &InitramfsResource, state: &InitramfsState, image: &EarlyImage) -> Self {
        let inside = |path: &String| image.files.get(path).and_then(Option::as_ref);
        let module = |name: &String| image.modules.get(name).cloned().unwrap_or_default();
        let pick = |names: &[String], wanted: &dyn Fn(&String) -> bool| -> Vec<String> {
            names.iter().filter(|name| wanted(name)).cloned().collect()
        };
        let on_host = |path: &String| host_digest(state, path);
        let mut lacks = pick(&want.files, &|path| inside(path).is_none());
        lacks.extend(pick(&want.as_host, &|path| inside(path).is_none() && on_host(path).is_some()));
        lacks.extend(pick(&want.modules, &|name| !module(name).builtin && module(name).inside.is_none()));
        let is_other = |path: &String| inside(path).is_some() && inside(path) != on_host(path);
        let mut outdated = pick(&want.files, &is_other);
        outdated.extend(pick(&want.as_host, &|path| on_host(path).is_some() && is_other(path)));
        outdated.extend(pick(&want.modules, &|name| is_outdated(&module(name))));
        outdated.extend(pick(&want.current_modules, &|name| is_outdated(&module(name))));
        let mut has = pick(&want.lacks, &|path| inside(path).is_some());
        has.extend(pick(&want.as_host, &|path| inside(path).is_some() && on_host(path).is_none()));
        has.extend(pick(&want.lacks_modules, &|name| module(name).inside.is_some()));
        Self { lacks, outdated, has }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the differences as phrases: `lacks …`, `has …`.
    pub fn describe(&self) -> Vec<String> {
        let all = [("lacks", &self.lacks), ("has an outdated", &self.outdated), ("has", &self.has)];
        let named = all.into_iter().filter(|(_, names)| !names.is_empty());
        named.map(|(word, names)| format!("{word} {}", join_quoted(names))).collect()
    }
}

/// Reports whether the module in the image is outdated. Modules without a source digest cannot be compared.
fn is_outdated(module: &ModuleInside) -> bool {
    match (&module.host, &module.inside) {
        (Some(host), Some(inside)) => !host.is_empty() && !inside.is_empty() && host != inside,
        _ => false,
    }
}

pub(super) fn host_digest<'s>(state: &'s InitramfsState, path: &str) -> Option<&'s String> {
    state.files.get(path).and_then(Option::as_ref)
}
