// Command loader sends one request again and again, several at a time, and prints how long each answer took and how
// many came back other than they should be. In Go, so that the client takes little of the machine that is measured.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type result struct {
	Seconds   float64   `json:"seconds"`
	Latencies []float64 `json:"latencies"` // seconds
	Wrong     int       `json:"wrong"`
	Example   string    `json:"example"` // of a wrong answer, its beginning
}

func main() {
	url := flag.String("url", "", "where to send it")
	ca := flag.String("ca", "", "PEM file of the server's authority")
	body := flag.String("body", "", "file with the request's body, JSON")
	expect := flag.String("expect", "", "what an answer must hold")
	absent := flag.String("absent", "", "what an answer must not hold")
	workers := flag.Int("workers", 1, "how many at a time")
	count := flag.Int("count", 100, "how many in all")
	rate := flag.Float64("rate", 0, "at most so many a second; 0: as many as there are answers")
	flag.Parse()
	token := os.Getenv("LOADER_TOKEN")
	pem, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(*body)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: *workers,
	}}
	send := func() (float64, string) {
		request, err := http.NewRequest("POST", *url, bytes.NewReader(content))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		start := time.Now()
		answer, err := client.Do(request)
		if err != nil {
			return time.Since(start).Seconds(), err.Error()
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		took := time.Since(start).Seconds()
		switch {
		case err != nil:
			return took, err.Error()
		case answer.StatusCode >= 300,
			*expect != "" && !bytes.Contains(said, []byte(*expect)),
			*absent != "" && bytes.Contains(said, []byte(*absent)):
			return took, string(said[:min(len(said), 400)])
		}
		return took, ""
	}
	if _, wrong := send(); wrong != "" { // also opens the connection
		log.Fatalf("the first answer is wrong: %s", wrong)
	}
	var next atomic.Int64
	var lock sync.Mutex
	out := result{Latencies: make([]float64, 0, *count)}
	var done sync.WaitGroup
	start := time.Now()
	for range *workers {
		done.Go(func() {
			for {
				turn := next.Add(1)
				if turn > int64(*count) {
					return
				}
				if *rate > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(float64(turn) / *rate * float64(time.Second)))))
				}
				took, wrong := send()
				lock.Lock()
				out.Latencies = append(out.Latencies, took)
				if wrong != "" {
					out.Wrong++
					out.Example = wrong
				}
				lock.Unlock()
			}
		})
	}
	done.Wait()
	out.Seconds = time.Since(start).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}
