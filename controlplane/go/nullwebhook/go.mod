module samestep/controlplane/nullwebhook

go 1.26.0
