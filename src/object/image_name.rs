//! Names of container images, and where a mirror has them.

/// The parts of an image's name. A name without a registry is one of Docker Hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageName {
    /// `nvcr.io`, `registry.example:5000`.
    pub registry: String,
    /// `nvidia/cloud-native/dcgm`.
    pub path: String,
    /// A tag or a digest; `None` for a name without either.
    pub reference: Option<String>,
}

impl ImageName {
    /// Splits a name. A digest takes precedence over a tag next to it.
    pub fn parse(image: &str) -> Self {
        let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
        // A colon before the last slash is a registry's port.
        let tag_at = name.rfind(':').filter(|at| !name[*at..].contains('/'));
        let (name, tag) = tag_at.map_or((name, None), |at| (&name[..at], Some(&name[at + 1..])));
        let is_registry = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest.to_owned()),
            Some(_) => ("docker.io", name.to_owned()),
            None => ("docker.io", format!("library/{name}")),
        };
        let reference = digest.or(tag).filter(|reference| !reference.is_empty()).map(str::to_owned);
        Self { registry: registry.to_owned(), path, reference }
    }

    /// Returns the last part of the path, with the tag or digest: `dcgm:4.5.2`.
    fn short_name(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        match &self.reference {
            Some(digest) if digest.contains(':') => format!("{name}@{digest}"),
            Some(tag) => format!("{name}:{tag}"),
            None => name.to_owned(),
        }
    }

    /// Returns the name of the image in a mirror, `MIRROR/NAME:TAG`: where `skopeo sync` copies it to.
    pub fn mirrored_at(&self, mirror: &str) -> String {
        format!("{}/{}", mirror.trim_end_matches('/'), self.short_name())
    }
}

/// Returns the mirror, registry and path, that has `source` under the name `image`; `None` if a mirror would have it
/// under another name.
pub fn find_mirror(image: &str, source: &str) -> Option<String> {
    let (mirror, _) = image.rsplit_once('/')?;
    (ImageName::parse(source).mirrored_at(mirror) == image).then(|| mirror.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(image: &str) -> (String, String, Option<String>) {
        let ImageName { registry, path, reference } = ImageName::parse(image);
        (registry, path, reference)
    }

    #[test]
    fn image_names_are_split() {
        let split = |registry: &str, path: &str, reference: Option<&str>| {
            (registry.to_owned(), path.to_owned(), reference.map(str::to_owned))
        };
        assert_eq!(parts("nvcr.io/nvidia/dcgm:4.5"), split("nvcr.io", "nvidia/dcgm", Some("4.5")));
        assert_eq!(parts("r:5000/a"), split("r:5000", "a", None));
        assert_eq!(parts("localhost/a/b:1"), split("localhost", "a/b", Some("1")));
        assert_eq!(parts("volcanosh/vc:v1"), split("docker.io", "volcanosh/vc", Some("v1")));
        assert_eq!(parts("busybox"), split("docker.io", "library/busybox", None));
        assert_eq!(parts("a.b/c:1@sha256:00"), split("a.b", "c", Some("sha256:00")));
    }

    #[test]
    fn mirror_has_an_image_under_its_last_name() {
        let dcgm = "nvcr.io/nvidia/cloud-native/dcgm:4.5.2";
        assert_eq!(ImageName::parse(dcgm).mirrored_at("mirror.example/nvidia/"), "mirror.example/nvidia/dcgm:4.5.2");
        let digest = ImageName::parse("nvcr.io/a/b@sha256:00").mirrored_at("m");
        assert_eq!(digest, "m/b@sha256:00");
        assert_eq!(find_mirror("mirror.example/nvidia/dcgm:4.5.2", dcgm).as_deref(), Some("mirror.example/nvidia"));
        assert_eq!(find_mirror("mirror.example/nvidia/dcgm:4.5.3", dcgm), None);
        assert_eq!(find_mirror("mirror.example/nvidia/cloud-native/dcgm4:4.5.2", dcgm), None);
    }
}
