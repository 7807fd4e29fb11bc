// Command loader sends requests again and again, several at a time. With -body it sends one request, and prints how long
// each answer took and how many came back other than they should be. With -plan it sends several in turn, at a steady
// rate and until it is told to end, and prints each answer as it comes, for others to judge. In Go, so that the client
// takes little of the machine that is measured.
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
	"os/signal"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	longest = 600 // bytes of an answer that are told
	least   = 3   // requests that are sent whatever the time limit
)

type result struct {
	Seconds   float64   `json:"seconds"`
	Latencies []float64 `json:"latencies"` // seconds
	Wrong     int       `json:"wrong"`
	Example   string    `json:"example"` // of a wrong answer, its beginning
}

type planned struct {
	Name string          `json:"name"`
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"`
}

type outcome struct {
	Name   string  `json:"name"`
	At     float64 `json:"at"`     // when it was sent, seconds since 1970
	Took   float64 `json:"took"`   // seconds
	Status int     `json:"status"` // 0: there was no answer; -1: it was not sent, since too many waited
	Found  string  `json:"found"`  // the first group of -find
	Said   string  `json:"said"`   // the beginning of an answer that is no success, or why there was none
}

// Sends a body, and returns how long that took, the status and the answer.
type sender func(url string, body []byte) (took time.Duration, status int, said []byte, err error)

func main() {
	url := flag.String("url", "", "where to send it")
	ca := flag.String("ca", "", "PEM file of the server's authority")
	body := flag.String("body", "", "file with the request's body, JSON")
	expect := flag.String("expect", "", "what an answer must hold")
	absent := flag.String("absent", "", "what an answer must not hold")
	workers := flag.Int("workers", 1, "how many at a time")
	count := flag.Int("count", 100, "how many in all")
	limit := flag.Duration("limit", 0, "after which no more are sent, once each worker has sent some; 0: never")
	rate := flag.Float64("rate", 0, "at most so many a second; 0: as many as there are answers")
	plan := flag.String("plan", "", "file with what to send in turn: a JSON list of name, url and body; needs -rate")
	find := flag.String("find", "", "with -plan: a regular expression with a group, what to tell of an answer")
	flag.Parse()
	pem, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	send := connect(pem, *workers)
	if *plan != "" {
		content, err := os.ReadFile(*plan)
		if err != nil {
			log.Fatal(err)
		}
		var all []planned
		if err := json.Unmarshal(content, &all); err != nil {
			log.Fatal(err)
		}
		stream(send, all, *workers, *rate, regexp.MustCompile(*find))
		return
	}
	content, err := os.ReadFile(*body)
	if err != nil {
		log.Fatal(err)
	}
	repeat(func() (float64, string) {
		took, status, said, err := send(*url, content)
		switch {
		case err != nil:
			return took.Seconds(), err.Error()
		case status >= 300,
			*expect != "" && !bytes.Contains(said, []byte(*expect)),
			*absent != "" && bytes.Contains(said, []byte(*absent)):
			return took.Seconds(), string(said[:min(len(said), longest)])
		}
		return took.Seconds(), ""
	}, *workers, *count, *limit, *rate)
}

func connect(pem []byte, workers int) sender {
	token := os.Getenv("LOADER_TOKEN")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: workers,
	}}
	return func(url string, body []byte) (time.Duration, int, []byte, error) {
		request, err := http.NewRequest("POST", url, bytes.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		start := time.Now()
		answer, err := client.Do(request)
		if err != nil {
			return time.Since(start), 0, nil, err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		return time.Since(start), answer.StatusCode, said, err
	}
}

func repeat(send func() (float64, string), workers, count int, limit time.Duration, rate float64) {
	if _, wrong := send(); wrong != "" { // also opens the connection
		log.Fatalf("the first answer is wrong: %s", wrong)
	}
	var next atomic.Int64
	var lock sync.Mutex
	out := result{Latencies: make([]float64, 0, count)}
	var done sync.WaitGroup
	start := time.Now()
	for range workers {
		done.Go(func() {
			for {
				turn := next.Add(1)
				if turn > int64(count) || limit > 0 && turn > int64(max(least, workers)) && time.Since(start) > limit {
					return
				}
				if rate > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(float64(turn) / rate * float64(time.Second)))))
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

// Nobody waits for anybody: what falls due while all workers wait for answers is not sent, and told as such. Else a
// server that has been away would be met by everything that had piled up.
func stream(send sender, all []planned, workers int, rate float64, find *regexp.Regexp) {
	if len(all) == 0 || rate <= 0 {
		log.Fatal("-plan needs something to send, and a -rate")
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM, os.Interrupt)
	var lock sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(one outcome) {
		lock.Lock()
		defer lock.Unlock()
		if err := out.Encode(one); err != nil {
			log.Fatal(err)
		}
	}
	due := make(chan planned)
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for one := range due {
				at := time.Now()
				took, status, said, err := send(one.URL, one.Body)
				told := outcome{Name: one.Name, At: seconds(at), Took: took.Seconds(), Status: status}
				if found := find.FindSubmatch(said); len(found) > 1 {
					told.Found = string(found[1])
				}
				if err != nil {
					told.Status, told.Said = 0, err.Error()
				} else if status >= 300 {
					told.Said = string(said[:min(len(said), longest)])
				}
				tell(told)
			}
		})
	}
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	for turn := 0; ; turn++ {
		select {
		case <-over:
			close(due)
			done.Wait()
			return
		case <-ticks.C:
		}
		one := all[turn%len(all)]
		select {
		case due <- one:
		default:
			tell(outcome{Name: one.Name, At: seconds(time.Now()), Status: -1, Said: "not sent: too many wait"})
		}
	}
}

func seconds(at time.Time) float64 {
	return float64(at.UnixNano()) / float64(time.Second)
}
