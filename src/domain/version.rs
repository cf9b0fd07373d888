//! Kubernetes versions and how they compare.
