import com.github.tonivade.claudb.ClauDB;
import com.github.tonivade.claudb.DBConfig;
import com.github.tonivade.resp.RespServer;

/** A ClauDB on the port that is named, until the process is ended. */
public final class Run {
	public static void main(String[] arguments) throws Exception {
		RespServer server = ClauDB.builder().host("127.0.0.1")
			.port(Integer.parseInt(arguments[0])).withoutPersistence()
			.withEngine(arguments.length > 1 ? DBConfig.Engine.LUAJ : DBConfig.Engine.NULL).build();
		server.start();
		Thread.currentThread().join();
	}
}
