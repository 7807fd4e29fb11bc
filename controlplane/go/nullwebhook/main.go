// Command nullwebhook answers every AdmissionReview with one constant JSONPatch, or with none: the least that any
// admission webhook costs, which the benchmarks measure others against.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
)

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID string `json:"uid"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType,omitempty"`
	Patch     []byte `json:"patch,omitempty"` // encoding/json writes it as base64, which is what the API asks for
}

func main() {
	address := flag.String("address", "127.0.0.1:9443", "host and port to listen on")
	cert := flag.String("cert", "", "PEM file of the serving certificate")
	key := flag.String("key", "", "PEM file of its private key")
	patch := flag.String("patch", "", "the JSONPatch to answer with; empty: none, as a validating webhook has to")
	flag.Parse()
	answer := response{Allowed: true}
	if *patch != "" {
		if !json.Valid([]byte(*patch)) {
			log.Fatalf("-patch is not JSON: %s", *patch)
		}
		answer.PatchType, answer.Patch = "JSONPatch", []byte(*patch)
	}
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var in review
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		mine := answer
		mine.UID = in.Request.UID
		out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &mine}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServeTLS(*address, *cert, *key, nil))
}
