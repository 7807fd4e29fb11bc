module samestep/controlplane/loader

go 1.26.0
