// Command nullwebhook answers every mutating AdmissionReview with one constant JSONPatch: the least that any
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
	PatchType string `json:"patchType"`
	Patch     []byte `json:"patch"` // encoding/json writes it as base64, which is what the API asks for
}

func main() {
	address := flag.String("address", "127.0.0.1:9443", "host and port to listen on")
	cert := flag.String("cert", "", "PEM file of the serving certificate")
	key := flag.String("key", "", "PEM file of its private key")
	patch := flag.String("patch", "[]", "the JSONPatch to answer with")
	flag.Parse()
	if !json.Valid([]byte(*patch)) {
		log.Fatalf("-patch is not JSON: %s", *patch)
	}
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var in review
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &response{in.Request.UID, true, "JSONPatch", []byte(*patch)}}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServeTLS(*address, *cert, *key, nil))
}
