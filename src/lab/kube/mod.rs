//! The lab's Kubernetes API, controllers and kubelets.
//!
//! What this must not know: the service.
