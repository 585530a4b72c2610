// Package kubernetes tests the manifests of examples/kubernetes against the types of Kubernetes' API.
package kubernetes
