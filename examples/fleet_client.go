// Give an order to a fleet and follow it to its end, from Go with the standard library alone.
//
//	go run fleet_client.go nats://submit:PASSWORD@127.0.0.1:PORT "mend the failing test" [AGENT]
//
// A real program would use a NATS client; this one shows that the contract needs nothing else.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

type engine struct {
	connection net.Conn
	reader     *bufio.Reader
	inbox      string
}

func word() string {
	data := make([]byte, 6)
	if _, err := rand.Read(data); err != nil {
		panic(err)
	}
	return hex.EncodeToString(data)
}

func connect(address *url.URL) *engine {
	connection, err := net.Dial("tcp", address.Host)
	if err != nil {
		panic(err)
	}
	password, _ := address.User.Password()
	who, _ := json.Marshal(map[string]any{
		"user": address.User.Username(), "pass": password, "headers": true, "verbose": false, "lang": "go",
	})
	made := &engine{connection, bufio.NewReader(connection), "_INBOX_submit." + word()}
	fmt.Fprintf(connection, "CONNECT %s\r\nSUB %s.* 1\r\n", who, made.inbox)
	return made
}

// request sends one message and gives the headers and the body of the answer.
func (e *engine) request(subject, header, body string) (string, string) {
	reply := e.inbox + "." + word()
	if header == "" {
		fmt.Fprintf(e.connection, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body)
	} else {
		head := "NATS/1.0\r\n" + header + "\r\n\r\n"
		fmt.Fprintf(e.connection, "HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(head), len(head)+len(body), head, body)
	}
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil {
			panic(err)
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			fmt.Fprint(e.connection, "PONG\r\n")
		case words[0] == "-ERR":
			panic(line)
		case words[0] == "MSG" || words[0] == "HMSG":
			size, _ := strconv.Atoi(words[len(words)-1])
			data := make([]byte, size+2)
			if _, err := io.ReadFull(e.reader, data); err != nil {
				panic(err)
			}
			headers := 0
			if words[0] == "HMSG" {
				headers, _ = strconv.Atoi(words[len(words)-2])
			}
			if words[1] == reply {
				return string(data[:headers]), string(data[headers:size])
			}
		}
	}
}

func main() {
	address, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	agent := "native"
	if len(os.Args) > 3 {
		agent = os.Args[3]
	}
	engine := connect(address)
	id := word()
	order, _ := json.Marshal(map[string]any{"format": 1, "id": id, "task": os.Args[2], "agent": agent})
	// Stored when this returns. Expecting no earlier one makes it safe to repeat.
	_, stored := engine.request("$KV.fleet.spec."+id, "Nats-Expected-Last-Subject-Sequence: 0", string(order))
	if strings.Contains(stored, `"error"`) {
		panic(stored)
	}
	fmt.Println("given:", id)
	for {
		time.Sleep(100 * time.Millisecond)
		headers, body := engine.request("$JS.API.DIRECT.GET.KV_fleet.$KV.fleet.order."+id, "", "")
		var found struct{ State string }
		if strings.HasPrefix(headers, "NATS/1.0 ") || json.Unmarshal([]byte(body), &found) != nil {
			continue // not taken in yet
		}
		switch found.State {
		case "done", "failed", "cancelled", "skipped":
			fmt.Println("ended:", found.State)
			if found.State != "done" {
				os.Exit(1)
			}
			return
		}
	}
}
