// Watch a terminal from Go: print its output and exit with its code.
//
//	go run terminal_client.go SOCKET
//
// The protocol is in docs/reference/terminal-protocol.md.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

const (
	subscribe = 0x02
	output    = 0x81
	exit      = 0x83
)

func watch(path string) (int, error) {
	supervisor, err := net.Dial("unix", path)
	if err != nil {
		return 1, err
	}
	defer supervisor.Close()

	head := make([]byte, 5)
	if _, err := io.ReadFull(supervisor, head[:1]); err != nil {
		return 1, err
	}
	if head[0] != 0 {
		return 1, fmt.Errorf("mode 0x%02x is not known", head[0])
	}
	if _, err := supervisor.Write([]byte{subscribe, 0, 0, 0, 0}); err != nil {
		return 1, err
	}
	for {
		if _, err := io.ReadFull(supervisor, head); err != nil {
			return 1, err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(supervisor, payload); err != nil {
			return 1, err
		}
		switch head[0] {
		case output:
			os.Stdout.Write(payload)
		case exit:
			return int(int32(binary.BigEndian.Uint32(payload))), nil
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: terminal_client SOCKET")
		os.Exit(2)
	}
	code, err := watch(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
