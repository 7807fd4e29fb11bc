module samestep/controlplane/neighbours

go 1.26.0

// Only the zips are used, for the custom resource definitions in them; so this file is not for go mod tidy.
require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
