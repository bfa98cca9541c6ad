// A miniredis on the port that is named. Its times to live stand still, unless "runs" follows: then
// they go on with the clock.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const tick = 10 * time.Millisecond

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:" + os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		time.Sleep(tick)
		if len(os.Args) > 2 {
			server.FastForward(tick)
		}
	}
}
