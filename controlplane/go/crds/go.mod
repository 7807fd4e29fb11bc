module samestep/controlplane/crds

go 1.26.0

// Only the module's zip is used, for the custom resource definitions in it; so this file is not for go mod tidy.
require github.com/kubeflow/training-operator v1.9.3
