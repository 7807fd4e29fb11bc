module samestep/controlplane/crds

go 1.26.0

// Only the zips are used, for the custom resource definitions in them; so this file is not for go mod tidy.
require (
	github.com/argoproj/argo-workflows/v4 v4.0.5
	github.com/kubeflow/mpi-operator v0.8.0
	github.com/kubeflow/trainer/v2 v2.2.0
	github.com/kubeflow/training-operator v1.9.3
	github.com/project-codeflare/appwrapper v1.2.0
	github.com/ray-project/kuberay/ray-operator v1.6.0
	sigs.k8s.io/jobset v0.11.1
	sigs.k8s.io/kueue v0.17.0
	sigs.k8s.io/lws v0.8.0

	samestep/trainer-2.0 v0.0.0
	samestep/trainer-2.1 v0.0.0
)

// A build has one version of a module: the older ones go by names of their own.
replace (
	samestep/trainer-2.0 => github.com/kubeflow/trainer/v2 v2.0.0
	samestep/trainer-2.1 => github.com/kubeflow/trainer/v2 v2.1.0
)
