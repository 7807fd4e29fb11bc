#!/usr/bin/env bash
# A cluster of kind, the image of this checkout in its nodes, and Samestep installed by kustomize. Needs Docker; kind and
# kubectl are built from their Go modules. NOT TESTED where this was written, which has no Docker.
set -euo pipefail
cd "$(dirname "$0")/../.."
program() { "$PYTHON" -c "from controlplane.build import artifact; print(artifact('$1'))"; }
kind=$(program kind)
kubectl=$(program kubectl)
image=localhost/samestep:kind
overlay=manifests/overlays/kind

docker build --file Containerfile --tag "$image" .
"$kind" get clusters | grep -qx samestep || "$kind" create cluster --config "$overlay/cluster.yaml" --wait 2m
"$kind" load docker-image "$image" --name samestep
"$kubectl" --context kind-samestep apply --server-side --force-conflicts -k "$overlay"
"$kubectl" --context kind-samestep --namespace samestep-system rollout restart deployment/samestep
"$kubectl" --context kind-samestep --namespace samestep-system rollout status deployment/samestep --timeout 3m
echo "kubectl: $kubectl --context kind-samestep; tests: pytest -m kind tests/kind"
